#include "runtime/collective/bus_group.hpp"

#include <utility>

namespace baton::collective {

bus_group::bus_group(std::uint32_t rank, std::uint32_t width, bus_collective::sender send,
                     bus_options options)
    : inbox_(std::make_shared<group_inbox>(width)),
      ranks_(std::make_shared<bus_collective>(rank, width, inbox_, std::move(send), options)) {}

result<void> bus_group::enter(epoch_id epoch) {
  if (epoch <= entered_)
    return fail(errc::stale_epoch, "epoch {} of a group is over", epoch.value);
  entered_ = epoch;
  ranks_->begin(epoch);
  return {};
}

} // namespace baton::collective
