// Sends the root's plan to heads and agents, with the nodes, facts and keys of the machines.
#pragma once

#include "cluster/bus/message_router.hpp"
#include "cluster/join/join_server.hpp"
#include "cluster/roles/root/plan_controller.hpp"

#include <vector>

namespace baton::cluster {

class plan_sender {
public:
  // All must outlive this object. `join` is null if all nodes are on this machine.
  plan_sender(message_router& links, const run_dir& dir, join_server* join)
      : links_(links), dir_(dir), join_(join) {}

  // To all heads and agents.
  void publish(const plan_update& w);
  // A head gets its own pipeline, an agent all of them.
  void send_to(process_id who, const plan_update& w);
  void send_joined_to(process_id agent, const plan_update& w);
  // An agent has persisted the keys.
  void on_joined_confirmed(process_id agent, const joined& m,
                           const std::vector<agent_plan>& agents);

private:
  message_router& links_;
  const run_dir& dir_;
  join_server* join_;
};

} // namespace baton::cluster
