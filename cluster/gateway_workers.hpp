// The worker models of one gateway process: a pool for each, and the door where their processes
// greet.
#pragma once

#include "cluster/process.hpp"
#include "cluster/roles.hpp"
#include "gateway/board.hpp"

#include <memory>

namespace baton::gateway {
class worker_door;
}

namespace baton::cluster {

class gateway_workers {
public:
  // Tells the board of them. Nothing is opened where nodes.toml has no [[workers]]. Only before
  // `self` begins. Errors: address_in_use, io_failed.
  static result<std::unique_ptr<gateway_workers>> start(process& self,
                                                        const cluster_context& context,
                                                        std::shared_ptr<gateway::board> board,
                                                        std::uint32_t gateway_index);
  ~gateway_workers(); // stops
  // No worker is heard any more. Idempotent.
  void stop();

private:
  std::shared_ptr<gateway::worker_door> door_; // null: there are none
};

} // namespace baton::cluster
