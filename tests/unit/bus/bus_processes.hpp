// Two nodes of a bus, and CAF as their processes run it in tests.
#pragma once

#include "schema/ids.hpp"

#include <caf/actor_system_config.hpp>

namespace baton::testing {

inline constexpr process_id head_process{1};
inline constexpr process_id shard_process{2};

// The test says which actor runs next.
struct testing_config : caf::actor_system_config {
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

} // namespace baton::testing
