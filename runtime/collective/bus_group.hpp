// The group of ranks on several nodes: this rank's collective, across epochs.
#pragma once

#include "runtime/collective/bus_collective.hpp"
#include "runtime/collective/group.hpp"

namespace baton::collective {

class bus_group final : public group {
public:
  // Arguments as for bus_collective.
  bus_group(std::uint32_t rank, std::uint32_t width, bus_collective::sender send,
            bus_options options = {});

  // Errors: stale_epoch (not above all earlier epochs here). A later epoch of rank 0 is detected at
  // the next rendezvous.
  result<void> enter(epoch_id epoch) override;
  bool is_broken() const noexcept override { return ranks_->is_broken(); }
  // For the engine of this rank.
  std::shared_ptr<collective> ranks() const noexcept { return ranks_; }
  // Receives messages from the bus.
  group_inbox& inbox() const noexcept { return *inbox_; }

private:
  std::shared_ptr<group_inbox> inbox_;
  std::shared_ptr<bus_collective> ranks_;
  epoch_id entered_;
};

} // namespace baton::collective
