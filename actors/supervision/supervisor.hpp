// The supervisor of one process's children. It adopts children left by a previous supervisor,
// starts the others in order, restarts dead ones within their intensity, and stops them in reverse.
// Used by the root (gateway, head, agents) and by a node agent (its shards). Process control and
// clock are passed in, so that the same actor runs in simulation.
#pragma once

#include "actors/interfaces.hpp"
#include "actors/supervision/abandoned_processes.hpp"
#include "actors/supervision/child_control.hpp"
#include "actors/supervision/supervisor_config.hpp"

#include <optional>
#include <vector>

namespace baton::actors {

// The complete new set of children: new ones are started; missing ones are asked to stop, and
// removed after they end. Their ends do not affect siblings.
struct wanted_children {
  std::vector<child_spec> all;
};

} // namespace baton::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::child_exited)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::wanted_children)

namespace baton::actors {

using supervisor_actor =
    takes<status, drain, child_exited, wanted_children, peer_up, peer_down, tick>;

struct supervisor_state {
  static inline const char* name = "supervisor";
  supervisor_config config;
  supervised_children children;
  abandoned_processes abandoned;
  std::optional<child_control> control; // of `children`
  bool is_stopping = false;
};

supervisor_actor::behavior_type
supervisor(supervisor_actor::stateful_pointer<supervisor_state> self, supervisor_config config);

} // namespace baton::actors
