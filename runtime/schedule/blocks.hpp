// The one account of paged KV memory (PagedAttention, arXiv 2309.06180): which blocks are free and
// which belong to which sequence. The same at every stage. Called by the scheduler; never decides.
#pragma once

#include "schema/ids.hpp"

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

namespace baton::schedule {

class block_account {
public:
  block_account() = default; // of no blocks
  // Requires: block_positions > 0.
  block_account(std::uint32_t blocks, std::uint32_t block_positions);

  std::size_t needed(std::size_t positions) const noexcept {
    return (positions + block_positions_ - 1) / block_positions_;
  }
  std::size_t total() const noexcept { return total_; }
  std::size_t free() const noexcept { return free_.size(); }
  std::size_t used() const noexcept { return total_ - free_.size(); }

  // The sequence's blocks, in the order of its positions; valid until the next change.
  std::span<const block_index> of(sequence_id id) const;
  // Adds blocks until `positions` fit. All or nothing: false if too few are free.
  bool grow(sequence_id id, std::size_t positions);
  // Gives all of the sequence's blocks back. Requires: no step in flight reads or writes them.
  void release(sequence_id id);

  // Every block is free or owned, and only once; else the process ends.
  void check_integrity() const;

private:
  std::size_t total_ = 0;
  std::size_t block_positions_ = 1;
  std::vector<block_index> free_; // the last one goes next: lately used memory is warm
  std::unordered_map<sequence_id, std::vector<block_index>> owned_;
};

} // namespace baton::schedule
