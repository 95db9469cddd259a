#include "cluster/membership/failure_detector.hpp"

#include <algorithm>

namespace baton::cluster {

failure_detector::failure_detector(const std::vector<std::string>& nodes, timeouts most,
                                   time_point now)
    : timeouts_(most), idle_since_(now) {
  for (const auto& n : nodes)
    add(n, now);
}

void failure_detector::add(const std::string& node, time_point now) {
  nodes_.emplace(node, absence{now, timeouts_.at_start});
}

void failure_detector::on_connected(const std::string& node) {
  if (const auto it = nodes_.find(node); it != nodes_.end())
    it->second.reset();
}

void failure_detector::on_disconnected(const std::string& node, time_point now) {
  if (const auto it = nodes_.find(node); it != nodes_.end() && !it->second)
    it->second = absence{now, timeouts_.after_disconnect};
}

void failure_detector::on_serving(bool is_serving, time_point now) {
  if (is_serving)
    idle_since_.reset();
  else if (!idle_since_)
    idle_since_ = now;
}

std::set<std::string> failure_detector::lost(time_point now) const {
  std::set<std::string> all;
  if (!idle_since_ || timeouts_.after_disconnect.count() == 0)
    return all;
  for (const auto& [node, away] : nodes_)
    if (away && now - std::max(away->since, *idle_since_) >= away->most)
      all.insert(node);
  return all;
}

} // namespace baton::cluster
