// Two nodes of a bus, and CAF as their processes run it in tests.
#pragma once

#include "schema/ids.hpp"

#include <caf/actor_system_config.hpp>

namespace baton::testing {

inline constexpr node_id head_node{1};
inline constexpr node_id shard_node{2};

// The test says which actor runs next.
struct testing_config : caf::actor_system_config {
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

} // namespace baton::testing
