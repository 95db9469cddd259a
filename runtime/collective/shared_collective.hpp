// The collective of shards on one machine. Each rank puts its values into its slot of the group's
// memory (group_memory.hpp) and sets a flag. Once all have, each reads what it needs. No system
// calls while the other ranks arrive promptly: a waiting rank spins for about 50 µs, then sleeps on
// a futex.
//
//                      enter(area)                     a call fails
//     outside (at first) ----------> inside, calls work -----------> broken, calls give the failure
//                                      ^                                |
//                                      +--------------------------------+  enter(newer area)
//
// An all-reduce of up to 64 KiB takes one rendezvous: every rank sums all values. Above that, each
// rank sums its own part and then collects the other parts, while it hands out the values for which
// its slot had no room. Both sum in rank order, so the bits are the same.
//
// The halves of a sum (reduce_scatter, all_gather) need one rendezvous per round of values.
//
// Rounds alternate between two slots. A rank reuses a slot two rounds later. The rendezvous in
// between ensures that all others have read it.
#pragma once

#include "runtime/collective/group_memory.hpp"
#include "runtime/collective/ranked_collective.hpp"

#include <chrono>
#include <vector>

namespace baton::collective {

struct shared_options {
  std::chrono::milliseconds deadline = wait_max; // for each wait for the others
};

// For one thread at a time.
class shared_collective final : public ranked_collective, public partial_sums {
public:
  // Requires: rank < width <= ranks_max.
  shared_collective(std::uint32_t rank, std::uint32_t width, shared_options options = {});
  ~shared_collective() override;
  shared_collective(const shared_collective&) = delete;
  shared_collective& operator=(const shared_collective&) = delete;

  // Joins the area as this rank; does not wait for the others. Errors: conflict (the rank is
  // taken), invalid_value (the group has another width).
  result<void> enter(std::shared_ptr<const group_area> area);

  result<void> agree(std::uint64_t what) override;
  result<void> all_reduce(std::span<float> values) override;
  partial_sums* in_parts() noexcept override { return this; }
  result<void> reduce_scatter(std::span<float> values,
                              std::span<const std::size_t> borders) override;
  result<void> all_gather(std::span<std::byte> all, std::span<const std::size_t> borders) override;
  result<void> look() override;

private:
  result<void> check_epoch() const override;
  result<void> rendezvous(const purpose& what);
  result<void> await(std::uint32_t peer, std::uint32_t meeting);
  result<void> sleep_until_there(std::uint32_t peer, std::uint32_t meeting,
                                 std::chrono::steady_clock::time_point until);
  bool is_gone(std::uint32_t peer);
  void forget_processes() noexcept;

  float* own_slot(std::uint32_t round) const noexcept { return area_->slot(rank_, round % 2); }
  float* next_slot() noexcept;
  const float* slot_of(std::uint32_t peer) const noexcept { return area_->slot(peer, round_ % 2); }
  result<void> reduce_at_once(std::span<float> values);
  result<void> reduce_in_parts(std::span<float> values);
  void exchange_parts(std::span<float> summed, std::span<const float> next);
  template <class Piece>
  result<void> in_pieces(std::size_t size, std::span<const std::size_t> borders, std::size_t most,
                         Piece piece);
  std::size_t share_floats() const noexcept;
  result<void> scatter_piece(std::span<float> values, std::span<const std::size_t> borders,
                             std::size_t done);
  result<void> gather_parts(std::span<std::byte> all, std::span<const std::size_t> borders,
                            std::size_t done);
  void accumulate(float* values, std::size_t count, std::size_t slot_at, float* also) const;
  result<void> gather_piece(std::span<const float> own, std::span<float> all,
                            std::span<const std::size_t> counts, std::size_t done) override;

  const shared_options options_;
  std::shared_ptr<const group_area> area_;
  std::uint32_t meeting_ = 0, round_ = 0;
  std::vector<int> processes_; // [rank] its pidfd, -1: not opened yet
};

} // namespace baton::collective
