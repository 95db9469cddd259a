// The one account of paged KV memory (PagedAttention, arXiv 2309.06180): which blocks are free,
// which sequences hold which, which still hold the beginning of a text that may come again, and
// which places of swap space hold what of whom. The same at every stage. Called by the scheduler;
// never decides.
#pragma once

#include "runtime/schedule/prefix_index.hpp"
#include "schema/messages.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace baton::schedule {

//          grow                  release, published
//   free ────────> held by 1.. ─────────────────────> kept
//    ^               │    ^                             │ │
//    └── release ────┘    └────────── adopt ────────────┘ │
//    ^                                                    │
//    └──────────────── grow, the oldest first ────────────┘
//
//   A place in swap space:   free ──swap_out──> held by 1 ──swap_in, forget_swapped──> free
//
// Stages make copies and rows in the order of the micro-batches: what is written down here as free
// may be taken at once, though the copy out of it has yet to be made.
class block_account {
public:
  block_account() = default; // of no blocks
  // Requires: block_positions > 0. `first_stamp`: that of the account before, if there was one.
  block_account(std::uint32_t blocks, std::uint32_t block_positions, std::uint64_t first_stamp = 0);

  std::size_t needed(std::size_t positions) const noexcept {
    return (positions + block_positions_ - 1) / block_positions_;
  }
  std::size_t total() const noexcept { return holders_.size(); }
  std::size_t free() const noexcept { return free_.size() + kept_.size(); } // with those kept
  std::size_t used() const noexcept { return total() - free(); }

  // The sequence's blocks, in the order of its positions; valid until the next change.
  std::span<const block_index> of(sequence_id id) const;
  // Adds blocks until `positions` fit. All or nothing: false if too few are free.
  bool grow(sequence_id id, std::size_t positions);
  // The sequence lets all of its blocks go. Requires: no step in flight reads or writes them.
  void release(sequence_id id);

  // -- the prefix cache. A sequence's `ids` and `salt` are the same in each call; whole blocks
  // only.

  // The positions [0, computed) are valid: their blocks may serve other sequences.
  void publish(sequence_id id, std::string_view salt, std::span<const token_id> ids,
               std::size_t computed);
  // Goes on from `computed` with blocks that others have published, in place of its own, but never
  // the one of the last id: that row is computed, for it draws. Returns how far the sequence has
  // come. Requires: no rows in flight, [0, computed) published as far as blocks are whole.
  std::size_t adopt(sequence_id id, std::string_view salt, std::span<const token_id> ids,
                    std::size_t computed);

  // -- swap space: what sequences that were preempted have computed.

  // Requires: nothing is in it.
  void offer_swap(std::uint32_t blocks);
  std::size_t swap_total() const noexcept { return swap_total_; }
  std::size_t swap_used() const noexcept { return swap_total_ - swap_free_.size(); }
  std::size_t swapped(sequence_id id) const;                             // its places
  std::size_t swapped_count() const noexcept { return swapped_.size(); } // sequences with places
  // A place for each block of [0, positions) and the copies that fill it; the blocks stay with the
  // sequence. All or nothing: false if too few are free. Requires: it has no places.
  bool swap_out(sequence_id id, std::size_t positions, std::vector<block_copy>& copies);
  // Back, from the block of position `from` on, into the blocks that it holds now; its places are
  // free. Requires: it holds as many blocks as it has places.
  void swap_in(sequence_id id, std::size_t from, std::vector<block_copy>& copies);
  void forget_swapped(sequence_id id);

  // -- what blocks hold, for whoever copies it elsewhere (kv_move.hpp).

  // Another one each time that the block is taken by somebody to be filled anew.
  std::uint64_t stamp(block_index block) const { return stamps_.at(block); }
  std::uint64_t last_stamp() const noexcept { return last_stamp_; }
  // Those of a beginning that may come again, held by nobody.
  std::vector<block_index> kept() const;

  // Every block is free, kept or held, and by as many as hold it; else the process ends.
  void check_integrity() const;

private:
  struct holding {
    std::vector<block_index> blocks;
    std::size_t published = 0;  // whole blocks, from the first on
    prefix_index::place at = 0; // the place after them
  };

  block_index take();
  void hold(block_index block);
  void let_go(block_index block);
  void check_swap() const;

  std::size_t block_positions_ = 1;
  std::vector<block_index> free_;      // the last one goes next: lately used memory is warm
  std::vector<std::uint32_t> holders_; // [block]
  std::vector<std::uint64_t> stamps_;  // [block]
  std::uint64_t last_stamp_ = 0;
  std::map<std::uint64_t, block_index> kept_;                 // by when they were let go
  std::unordered_map<block_index, std::uint64_t> kept_since_; // the same, the other way round
  std::uint64_t clock_ = 0;
  prefix_index index_;
  std::unordered_map<sequence_id, holding> owned_;
  std::size_t swap_total_ = 0;
  std::vector<block_index> swap_free_;
  std::unordered_map<sequence_id, std::vector<block_index>> swapped_; // by block of the sequence
};

} // namespace baton::schedule
