#include "cluster/plan/absence_book.hpp"

#include <algorithm>

namespace baton::cluster {

absence_book::absence_book(const std::vector<std::string>& nodes, patience most, time_point now)
    : patience_(most), idle_since_(now) {
  for (const auto& n : nodes)
    add(n, now);
}

void absence_book::add(const std::string& node, time_point now) {
  nodes_.emplace(node, absence{now, patience_.at_first});
}

void absence_book::on_here(const std::string& node) {
  if (const auto it = nodes_.find(node); it != nodes_.end())
    it->second.reset();
}

void absence_book::on_away(const std::string& node, time_point now) {
  if (const auto it = nodes_.find(node); it != nodes_.end() && !it->second)
    it->second = absence{now, patience_.once_here};
}

void absence_book::on_serving(bool is_serving, time_point now) {
  if (is_serving)
    idle_since_.reset();
  else if (!idle_since_)
    idle_since_ = now;
}

std::set<std::string> absence_book::lost(time_point now) const {
  std::set<std::string> all;
  if (!idle_since_ || patience_.once_here.count() == 0)
    return all;
  for (const auto& [node, away] : nodes_)
    if (away && now - std::max(away->since, *idle_since_) >= away->most)
      all.insert(node);
  return all;
}

} // namespace baton::cluster
