// The interface through which an engine with a slice of its stage's tensors exchanges values with
// the other ranks of its group. Shared memory for shards of one machine (shared_collective.hpp);
// NCCL for GPUs belongs behind the same interface.
//
// Every rank makes the same calls in the same order with the same sizes: one leader orders the
// group's micro-batches, and a step depends on nothing else. Every call has a time limit.
#pragma once

#include "schema/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace baton::collective {

// The longest wait for another rank of the same machine or over the bus: far above the skew of
// ranks within a step. A step may take this much longer in a group (actors/step_watch.hpp).
inline constexpr std::chrono::milliseconds wait_max{2000};

// A sum in two halves: in between, each rank continues with its own part only, so no work is done
// twice. It costs two rendezvous, where all_reduce may need one.
//
// `borders`: rank r's part is [borders[r], borders[r + 1]). They are width() + 1 values, ascending
// from 0 to the size of the span. Errors: those of the collective.
class partial_sums {
public:
  virtual ~partial_sums() = default;

  // Sums this rank's part of `values` over all ranks, with the bits of all_reduce. Values outside
  // the part are unchanged.
  virtual result<void> reduce_scatter(std::span<float> values,
                                      std::span<const std::size_t> borders) = 0;
  // `all` = the parts of all ranks; each rank's own part is already in place.
  virtual result<void> all_gather(std::span<std::byte> all,
                                  std::span<const std::size_t> borders) = 0;
};

class collective {
public:
  virtual ~collective() = default;

  virtual std::uint32_t rank() const noexcept = 0; // below width()
  virtual std::uint32_t width() const noexcept = 0;

  // After a failure `values` and `all` are undefined, and so is the progress of other ranks. Every
  // further call fails too, until the group begins a new epoch.
  // Errors: deadline_exceeded (a rank was late), link_down (its process is gone), stale_epoch (the
  // group's epoch is over, or none was entered), internal (ranks make different calls).

  // Returns once all ranks have made the same call. This detects a rank that skipped a step before
  // values of two different steps are summed.
  virtual result<void> agree(std::uint64_t what) = 0;

  // values = the elementwise sum over all ranks, formed in rank order. Every rank gets the same
  // bits, regardless of timing and of the other values in the span.
  virtual result<void> all_reduce(std::span<float> values) = 0;

  // Null unless two rendezvous cost little more than one. Lives as long as the collective.
  virtual partial_sums* in_parts() noexcept { return nullptr; }

  // On rank 0, `all` receives the `own` of all ranks in rank order; on other ranks `all` is
  // untouched. Rank 0's own part may already be in place. Requires: one count per rank; own.size()
  // is this rank's count; on rank 0 `all` has the size of their sum.
  virtual result<void> gather(std::span<const float> own, std::span<float> all,
                              std::span<const std::size_t> counts) = 0;

  // For a rank that waits for the others by other means than these calls (as GPUs do): whether they
  // are still there. Does not wait. Errors: link_down, stale_epoch, or an earlier failure.
  virtual result<void> look() = 0;
  // The other means of communication failed: marks this one as failed too.
  virtual void give_up(const error& why) = 0;
};

} // namespace baton::collective
