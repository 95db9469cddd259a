// The memory shared by the ranks of one group: a file (memfd) that the group's owner creates and
// passes down, as it does with KV. The label holds the open epoch; each epoch has an area of its
// own for the ranks' rendezvous.
//
//   file   [label][area of the 1st epoch][area of the 2nd]...   only the newest area has pages
//   area   [flags of rank 0][flags of rank 1]...                polled by the others
//          [slots of rank 0: A B][slots of rank 1: A B]...      values, written by their rank alone
//
//              open_epoch(e)                 close_epoch()
//     closed ----------------> e is open ------------------> closed
//                                  |  open_epoch(e'), e' > e
//                                  +------------------------> e' is open
//
// This fences off old epochs: no byte of the file is used by two of them. A rank that is suspended
// during a copy and resumes after its epoch writes where no rank reads any more.
//
// One process opens and closes epochs; any process may read which one is open.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace baton::collective {

// More than a machine's number of sockets; each rank takes 256 KiB.
inline constexpr std::uint32_t ranks_max = 16;
// Floats of a slot. Larger spans pass in pieces of this size: both slots of two ranks fit into
// second-level caches.
inline constexpr std::size_t slot_floats = std::size_t{32} << 10U;

// A rank's purpose at a rendezvous; all ranks must have the same.
struct purpose {
  std::uint64_t kind = 0;
  std::uint64_t floats = 0; // or the value to agree on
  friend bool operator==(const purpose&, const purpose&) = default;
};

// Written by its rank (`sleepers`: by the others), polled by all. Two pairs of cache lines, because
// the prefetcher fetches pairs.
struct alignas(256) rank_flags {
  std::atomic<std::uint32_t> arrived;  // rendezvous that its rank has reached; a futex
  std::atomic<std::uint32_t> sleepers; // ranks that sleep until it arrives, or are about to
  std::atomic<std::int32_t> process;   // 0: the rank has not entered
  std::array<purpose, 2> purposes;     // of rendezvous m: [m % 2]
};

// At the start of the file.
struct group_label {
  std::uint64_t magic;
  std::uint64_t width;
  std::uint64_t slot_floats;
  std::atomic<std::uint64_t> newest; // the last epoch opened
  std::atomic<std::uint64_t> area;   // index of its area
  // Alone on its pair of cache lines: every rank reads it in every call.
  alignas(128) std::atomic<std::uint64_t> epoch; // the open one; 0: none
};

// The mapped area of one epoch. Threads that are ranks of one group share it; each process maps it.
class group_area {
public:
  // Takes ownership of the mapping.
  group_area(std::shared_ptr<const group_label> label, epoch_id epoch, void* mapping,
             std::size_t size_bytes);
  ~group_area();
  group_area(const group_area&) = delete;
  group_area& operator=(const group_area&) = delete;

  std::uint32_t width() const noexcept { return static_cast<std::uint32_t>(label_->width); }
  epoch_id epoch() const noexcept { return epoch_; }
  bool is_open() const noexcept {
    return label_->epoch.load(std::memory_order_acquire) == epoch_.value;
  }
  // Requires: rank < width().
  rank_flags& flags_of(std::uint32_t rank) const noexcept {
    return static_cast<rank_flags*>(mapping_)[rank];
  }
  // [slot_floats], `which` 0 or 1; 64-byte aligned.
  float* slot(std::uint32_t rank, std::uint32_t which) const noexcept;

private:
  std::shared_ptr<const group_label> label_;
  epoch_id epoch_;
  void* mapping_;
  std::size_t size_bytes_;
};

class group_memory {
public:
  // Lays out the file for `width` ranks; no epoch is open. Existing contents are lost. The
  // descriptor is duplicated: `fd` may be closed. Errors: invalid_value (width), io_failed.
  static result<group_memory> create(int fd, std::uint32_t width);
  // Maps a file that another process has laid out. Errors: version_mismatch (another format or
  // build), io_failed.
  static result<group_memory> map(int fd);

  group_memory(group_memory&& other) noexcept;
  group_memory& operator=(group_memory&& other) noexcept;
  ~group_memory();

  std::uint32_t width() const noexcept { return static_cast<std::uint32_t>(label_->width); }
  epoch_id epoch() const noexcept { return {label_->epoch.load()}; } // 0: none is open

  // Ranks of earlier epochs notice the end of theirs at the latest in the next check while they
  // wait. Errors: stale_epoch (0, or not above all earlier epochs), io_failed.
  result<void> open_epoch(epoch_id epoch);
  void close_epoch() noexcept { label_->epoch.store(0); }

  // The area of `epoch`. Errors: stale_epoch (`epoch` is not open), does_not_fit.
  result<std::shared_ptr<const group_area>> area_of(epoch_id epoch) const;

private:
  group_memory() = default;
  result<void> map_label();

  int fd_ = -1;
  std::shared_ptr<group_label> label_;
};

} // namespace baton::collective
