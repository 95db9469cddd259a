// How the ranks of a stage sum up what each has in memory of its device, without the host between:
// a device may have a way (NCCL: nccl_sums.hpp), else the stage asks the shard.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::gpu {

class rank_sums {
public:
  virtual ~rank_sums() = default;

  // Before the first sum of an epoch, by all ranks: begins anew where it is another than before.
  // Throws refused(group_failed).
  virtual void enter(std::uint64_t epoch) = 0;
  // values = the sum over the ranks, in the order of the device's other work. Throws
  // refused(group_failed).
  virtual void sum(float* values, std::size_t count) = 0;
  // Returns when the device has done all that it was given, or throws refused(group_failed) in
  // time.
  virtual void finish() = 0;
};

} // namespace baton::gpu
