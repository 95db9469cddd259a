// The group of ranks on several nodes: this rank's collective, from epoch to epoch.
#pragma once

#include "runtime/collective/bus_collective.hpp"
#include "runtime/collective/group.hpp"

namespace baton::collective {

class bus_group final : public group {
public:
  // As of bus_collective.
  bus_group(std::uint32_t rank, std::uint32_t width, bus_collective::sender send,
            bus_options options = {});

  // Errors: stale_epoch (not above all there were here; that rank 0 has begun a later one since is
  // found out at the next meeting).
  result<void> enter(epoch_id epoch) override;
  bool is_broken() const noexcept override { return ranks_->is_broken(); }
  // For the engine of this rank.
  std::shared_ptr<collective> ranks() const noexcept { return ranks_; }
  // For what comes over the bus.
  group_inbox& inbox() const noexcept { return *inbox_; }

private:
  std::shared_ptr<group_inbox> inbox_;
  std::shared_ptr<bus_collective> ranks_;
  epoch_id entered_;
};

} // namespace baton::collective
