// Follows the gateways while they drain: which streams are open, and whether a gateway was lost
// with its streams. Pure.
#pragma once

#include "schema/membership.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace baton::cluster {

// The state of the gateways while they drain.
struct draining_gateways {
  bool is_over = true;      // no gateway has an open stream
  bool has_reported = true; // every connected gateway has reported that it drains
  std::string still_open;   // what is open
};
draining_gateways look_at(const std::vector<status>& nodes);

class drain_watch {
public:
  // The drain begins. Only gateways that serve now have streams to lose.
  void begin(const std::vector<status>& nodes);
  // Call it on every change: a gateway that was lost may be back, without its streams.
  void observe(const std::vector<status>& nodes);
  // The loss of a gateway; empty: none.
  const std::string& loss() const noexcept { return loss_; }
  bool has_lost(process_id process, incarnation_id incarnation) const {
    return lost_.contains({process, incarnation});
  }

private:
  std::set<process_id> had_streams_; // empty before the drain
  std::string loss_;
  std::set<std::pair<process_id, incarnation_id>> lost_;
};

} // namespace baton::cluster
