// Sums device memory over the ranks of a stage without the host. A device may implement it (NCCL:
// nccl_sums.hpp); otherwise the stage uses the shard.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::gpu {

class rank_sums {
public:
  virtual ~rank_sums() = default;

  // Called by all ranks before the first sum of an epoch; reconnects if the epoch is new. Throws
  // refused(group_failed).
  virtual void enter(std::uint64_t epoch) = 0;
  // values = the sum over the ranks, in order with the device's other work. Throws
  // refused(group_failed).
  virtual void sum(float* values, std::size_t count) = 0;
  // Returns when the device has completed all work, or throws refused(group_failed) after a
  // timeout.
  virtual void finish() = 0;
};

} // namespace baton::gpu
