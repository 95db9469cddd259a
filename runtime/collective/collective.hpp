// The seam between an engine that holds a slice of its stage's tensors and the others of its group:
// what a step needs of them. In shared memory for the shards of one machine
// (shared_collective.hpp); for GPUs NCCL belongs behind the same line.
//
// Every rank makes the same calls in the same order with the same sizes: one leader orders the
// group's micro-batches, and what a step does depends on nothing else. No call waits without end.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton::collective {

// A sum in two halves, between which a rank does what comes next with its part alone: what others
// would do as well is done once. It costs two meetings where all_reduce may need one.
//
// `borders`: rank r's part is [borders[r], borders[r + 1]); width() + 1 of them, ascending, from 0
// to the size of the span. Errors: as of the collective.
class partial_sums {
public:
  virtual ~partial_sums() = default;

  // This rank's part of values = the sum of all ranks' values there, with the bits of all_reduce;
  // what lies outside stays.
  virtual result<void> reduce_scatter(std::span<float> values,
                                      std::span<const std::size_t> borders) = 0;
  // `all` = the parts of all ranks; each has its own there already.
  virtual result<void> all_gather(std::span<std::byte> all,
                                  std::span<const std::size_t> borders) = 0;
};

class collective {
public:
  virtual ~collective() = default;

  virtual std::uint32_t rank() const noexcept = 0; // below width()
  virtual std::uint32_t width() const noexcept = 0;

  // After a failure what `values` or `all` hold is undefined, and so is how far the others came:
  // every further call fails as well, until the group has begun anew.
  // Errors, of all: deadline_exceeded (a rank did not come in time), link_down (its process is
  // gone), stale_epoch (the group's epoch is over, or none has been entered), internal (ranks call
  // for different things).

  // Meets the others and returns once all have come for the same: whoever left a step out, or had
  // none to run, is found out before values of two steps are summed up.
  virtual result<void> agree(std::uint64_t what) = 0;

  // values = the sum of all ranks' values, element by element, formed in the order of ranks: every
  // rank gets the same bits, whatever the timing and whatever else is in the span.
  virtual result<void> all_reduce(std::span<float> values) = 0;

  // Where two meetings cost little more than one; else null. Lives as long as the collective.
  virtual partial_sums* in_parts() noexcept { return nullptr; }

  // At rank 0 the `own` of all ranks lie in `all` one after the other, in the order of ranks; at
  // the others `all` is not touched. Rank 0's own part may lie at its place already. Requires: one
  // count per rank, own.size() is that of this rank, `all` is their sum at rank 0.
  virtual result<void> gather(std::span<const float> own, std::span<float> all,
                              std::span<const std::size_t> counts) = 0;

  // For a rank that meets the others by another way than these calls (GPUs do), and waits there:
  // whether those are still there that it would hear of here. Does not wait. Errors: link_down,
  // stale_epoch, or what has failed before.
  virtual result<void> look() = 0;
  // That other way has failed: so has this one, as if a call had.
  virtual void give_up(const error& why) = 0;
};

} // namespace baton::collective
