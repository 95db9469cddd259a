// Detects lost nodes on other machines. Pure: no clock, no links.
//
//   here --its agent's link is lost--> away --timeout, without service for as long---+
//    ^                                  |                                            |
//    +---------- linked again ----------+--------------------- lost <----------------+
//
// A node that has not been here since the root started has another timeout, because a machine reads
// its model file before it connects.
#pragma once

#include "schema/ids.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

class failure_detector {
public:
  using time_point = std::chrono::steady_clock::time_point;
  struct timeouts {
    std::chrono::milliseconds after_disconnect; // 0: unlimited
    std::chrono::milliseconds at_start;
  };
  // `nodes`: names of the nodes on other machines.
  failure_detector(const std::vector<std::string>& nodes, timeouts most, time_point now);

  // Adds a new node, which is away at first, or removes one from the cluster.
  void add(const std::string& node, time_point now);
  void remove(const std::string& node) { nodes_.erase(node); }

  // No effect for nodes that are not on another machine.
  void on_connected(const std::string& node);
  void on_disconnected(const std::string& node, time_point now);
  // Whether an epoch is open. If so, no node counts as lost: shards can run without their agent.
  void on_serving(bool is_serving, time_point now);
  std::set<std::string> lost(time_point now) const;

private:
  struct absence {
    time_point since;
    std::chrono::milliseconds most;
  };
  timeouts timeouts_;
  std::map<std::string, std::optional<absence>> nodes_;
  std::optional<time_point> idle_since_;
};

} // namespace baton::cluster
