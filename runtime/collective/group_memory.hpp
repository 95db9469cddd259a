// The memory that the ranks of one group share: a file (memfd) that whoever holds the group makes
// and hands down, as it does with KV. It says which epoch is open; each epoch has an area of its
// own in which the ranks meet.
//
//   file   [label][area of the 1st epoch][area of the 2nd]...   only the newest area has pages
//   area   [seat of rank 0][seat of rank 1]...                  flags, polled by the others
//          [slots of rank 0: A B][slots of rank 1: A B]...      values, written by their rank alone
//
//              open_epoch(e)                 close_epoch()
//     closed ----------------> e is open ------------------> closed
//                                  |  open_epoch(e'), e' > e
//                                  +------------------------> e' is open
//
// That is the fence: no place in the file is used by two epochs. A rank that was stopped inside of
// a copy and goes on when its epoch is long over writes where nobody reads any more.
//
// One process opens and closes epochs; any may read which one is open.
#pragma once

#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace baton::collective {

// More than one machine has sockets; each takes 256 KiB.
inline constexpr std::uint32_t ranks_max = 16;
// Floats of a slot. What is larger passes through in pieces of this size: both slots of two ranks
// stay in the second-level caches.
inline constexpr std::size_t slot_floats = std::size_t{32} << 10U;

// What a rank has come to a meeting for; they must all have come for the same.
struct purpose {
  std::uint64_t kind = 0;
  std::uint64_t floats = 0; // or what they agree about
  friend bool operator==(const purpose&, const purpose&) = default;
};

// Written by its rank (`sleepers`: by the others), polled by all. Two pairs of cache lines: their
// prefetcher fetches pairs.
struct alignas(256) seat {
  std::atomic<std::uint32_t> arrived;  // meetings that its rank has come to; a futex
  std::atomic<std::uint32_t> sleepers; // ranks asleep until it comes, or on their way
  std::atomic<std::int32_t> process;   // 0: nobody sits here
  std::array<purpose, 2> purposes;     // of meeting m: [m % 2]
};

// First in the file.
struct group_label {
  std::uint64_t magic;
  std::uint64_t width;
  std::uint64_t slot_floats;
  std::atomic<std::uint64_t> newest; // the last epoch that was opened
  std::atomic<std::uint64_t> area;   // index of its area
  // Alone on its pair of cache lines: every rank reads it in every call.
  alignas(128) std::atomic<std::uint64_t> epoch; // that is open; 0: none
};

// The area of one epoch, mapped. Threads that are ranks of one group share it; processes map it
// each.
class group_area {
public:
  // Takes over the mapping.
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
  seat& seat_of(std::uint32_t rank) const noexcept { return static_cast<seat*>(mapping_)[rank]; }
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
  // Lays the file out for so many ranks; no epoch is open. What was in it is gone. The file is
  // duplicated: `fd` may be closed. Errors: invalid_value (width), io_failed.
  static result<group_memory> create(int fd, std::uint32_t width);
  // The file as another process has laid it out. Errors: version_mismatch (it is none, or of
  // another build), io_failed.
  static result<group_memory> map(int fd);

  group_memory(group_memory&& other) noexcept;
  group_memory& operator=(group_memory&& other) noexcept;
  ~group_memory();

  std::uint32_t width() const noexcept { return static_cast<std::uint32_t>(label_->width); }
  epoch_id epoch() const noexcept { return {label_->epoch.load()}; } // 0: none is open

  // Ranks of an epoch before find theirs over, at the latest when they next look up from waiting.
  // Errors: stale_epoch (0, or not above every epoch there was), io_failed.
  result<void> open_epoch(epoch_id epoch);
  void close_epoch() noexcept { label_->epoch.store(0); }

  // The area of `epoch`. Errors: stale_epoch (it is not the one that is open), does_not_fit.
  result<std::shared_ptr<const group_area>> area_of(epoch_id epoch) const;

private:
  group_memory() = default;
  result<void> map_label();

  int fd_ = -1;
  std::shared_ptr<group_label> label_;
};

} // namespace baton::collective
