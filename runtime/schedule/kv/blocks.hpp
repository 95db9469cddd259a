// Accounting of paged KV memory (PagedAttention, arXiv 2309.06180): free blocks, the blocks of each
// sequence, cached prefixes, and the slots of swap space. The same at every stage. Called by the
// scheduler; makes no decisions.
#pragma once

#include "runtime/schedule/kv/prefix_index.hpp"
#include "schema/messages.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace baton::schedule {

//          grow                  release, published
//   free ────────> held by 1.. ─────────────────────> evictable
//    ^               │    ^                             │ │
//    └── release ────┘    └─────── match_prefix ────────┘ │
//    ^                                                    │
//    └──────────────── grow, the oldest first ────────────┘
//
//   A slot of swap space:   free ──swap_out──> held by 1 ──swap_in, forget_swapped──> free
//
// Stages execute copies and rows in the order of the micro-batches. So a block recorded as free may
// be reused at once, even if the copy out of it is still pending.
class block_manager {
public:
  block_manager() = default; // no blocks
  // Requires: block_positions > 0. `first_stamp`: the last stamp of the previous manager, if any.
  block_manager(std::uint32_t blocks, std::uint32_t block_positions, std::uint64_t first_stamp = 0);

  std::size_t needed(std::size_t positions) const noexcept {
    return (positions + block_positions_ - 1) / block_positions_;
  }
  std::size_t total() const noexcept { return holders_.size(); }
  std::size_t free() const noexcept {
    return free_.size() + evictable_.size();
  } // including evictable ones
  std::size_t used() const noexcept { return total() - free(); }

  // The sequence's blocks, in position order; valid until the next change.
  std::span<const block_index> of(sequence_id id) const;
  // Adds blocks until `positions` fit. All or nothing: false if too few are free.
  bool grow(sequence_id id, std::size_t positions);
  // Releases all blocks of the sequence. Requires: no step in flight reads or writes them.
  void release(sequence_id id);

  // -- the prefix cache. A sequence's `ids` and `salt` are the same in each call; whole blocks
  // only.

  // The positions [0, computed) are valid: their blocks may serve other sequences.
  void publish(sequence_id id, std::string_view salt, std::span<const token_id> ids,
               std::size_t computed);
  // Extends the sequence from `computed` with published blocks in place of its own, except the
  // block of the last id: that row must be computed, because it draws. Returns the new number of
  // computed positions. Requires: no rows in flight; whole blocks of [0, computed) are published.
  // `may_end`: only up to the longest prefix for which it is true; null: always.
  using end_of_prefix = std::function<bool(prefix_index::prefix_id at, std::size_t positions)>;
  std::size_t match_prefix(sequence_id id, std::string_view salt, std::span<const token_id> ids,
                           std::size_t computed, const end_of_prefix& may_end = nullptr);
  // The prefix that its published blocks end; 0: none.
  prefix_index::prefix_id published_prefix(sequence_id id) const;

  // -- swap space: the computed positions of preempted sequences.

  // Requires: swap space is empty.
  void offer_swap(std::uint32_t blocks);
  std::size_t swap_total() const noexcept { return swap_total_; }
  std::size_t swap_used() const noexcept { return swap_total_ - swap_free_.size(); }
  std::size_t swapped(sequence_id id) const;                             // its slots
  std::size_t swapped_count() const noexcept { return swapped_.size(); } // sequences with slots
  // Assigns a slot to each block of [0, positions) and lists the copies that fill it; the sequence
  // keeps its blocks. All or nothing: false if too few are free. Requires: it has no slots.
  bool swap_out(sequence_id id, std::size_t positions, std::vector<block_copy>& copies);
  // Copies back into its current blocks, from the block of position `from` on; its slots become
  // free. Requires: it holds as many blocks as it has slots.
  void swap_in(sequence_id id, std::size_t from, std::vector<block_copy>& copies);
  void forget_swapped(sequence_id id);

  // -- contents of blocks, for copying them elsewhere (kv_move.hpp).

  // Changes each time the block is taken to be filled anew.
  std::uint64_t stamp(block_index block) const { return stamps_.at(block); }
  std::uint64_t last_stamp() const noexcept { return last_stamp_; }
  // Blocks of cached prefixes that no sequence holds.
  std::vector<block_index> evictable() const;

  // Every block is free, evictable, or held with the right reference count; else the process ends.
  void check_integrity() const;

private:
  struct holding {
    std::vector<block_index> blocks;
    std::size_t published = 0;      // whole blocks, from the first on
    prefix_index::prefix_id at = 0; // the prefix that they end
  };

  block_index take();
  void hold(block_index block);
  void unhold(block_index block);
  void check_swap() const;

  std::size_t block_positions_ = 1;
  std::vector<block_index> free_;      // LIFO: recently used memory is warm
  std::vector<std::uint32_t> holders_; // [block]
  std::vector<std::uint64_t> stamps_;  // [block]
  std::uint64_t last_stamp_ = 0;
  std::map<std::uint64_t, block_index> evictable_;                 // by release time
  std::unordered_map<block_index, std::uint64_t> evictable_since_; // the inverse map
  std::uint64_t clock_ = 0;
  prefix_index index_;
  std::unordered_map<sequence_id, holding> owned_;
  std::size_t swap_total_ = 0;
  std::vector<block_index> swap_free_;
  std::unordered_map<sequence_id, std::vector<block_index>> swapped_; // by block of the sequence
};

} // namespace baton::schedule
