// Two processes of a bus, and CAF's configuration in tests.
#pragma once

#include "schema/ids.hpp"

#include <caf/actor_system_config.hpp>

namespace baton::testing {

inline constexpr process_id head_process{1};
inline constexpr process_id shard_process{2};

// The test chooses the next actor to run.
struct testing_config : caf::actor_system_config {
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

} // namespace baton::testing
