// Which nodes on other machines the cluster has to do without. Pure: no clock, no links.
//
//   here --its agent's link falls--> away --its patience is over, and as long nothing was served-+
//    ^                                |                                                          |
//    +--------- linked again ---------+---------------------- lost <-----------------------------+
//
// One that has not been here since the root began is away with another patience: a machine reads
// its model file before it says anything.
#pragma once

#include "schema/ids.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

class absence_book {
public:
  using time_point = std::chrono::steady_clock::time_point;
  struct patience {
    std::chrono::milliseconds once_here; // 0: without end
    std::chrono::milliseconds at_first;
  };
  // `nodes`: names of those on other machines.
  absence_book(const std::vector<std::string>& nodes, patience most, time_point now);

  // A node that has come to be: away at first, like the others; and one that is the cluster's no
  // more.
  void add(const std::string& node, time_point now);
  void remove(const std::string& node) { nodes_.erase(node); }

  // Nodes that are not on another machine are not in the book: nothing happens.
  void on_here(const std::string& node);
  void on_away(const std::string& node, time_point now);
  // Whether an epoch is open. While one is, nobody is missed: shards may go on without their agent.
  void on_serving(bool is_serving, time_point now);
  std::set<std::string> lost(time_point now) const;

private:
  struct absence {
    time_point since;
    std::chrono::milliseconds most;
  };
  patience patience_;
  std::map<std::string, std::optional<absence>> nodes_;
  std::optional<time_point> idle_since_;
};

} // namespace baton::cluster
