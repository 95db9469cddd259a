#include "runtime/schedule/kv/blocks.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton::schedule {

block_manager::block_manager(std::uint32_t blocks, std::uint32_t block_positions,
                             std::uint64_t first_stamp)
    : block_positions_(block_positions), free_(blocks), holders_(blocks), stamps_(blocks),
      last_stamp_(first_stamp) {
  ENSURE(block_positions > 0, "blocks of no positions");
  std::iota(free_.rbegin(), free_.rend(), block_index{0});
}

std::span<const block_index> block_manager::of(sequence_id id) const {
  const auto it = owned_.find(id);
  return it == owned_.end() ? std::span<const block_index>{} : it->second.blocks;
}

bool block_manager::grow(sequence_id id, std::size_t positions) {
  const std::size_t wanted = needed(positions);
  const std::size_t held = of(id).size();
  if (wanted <= held)
    return true;
  if (wanted - held > free())
    return false;
  auto& blocks = owned_[id].blocks;
  while (blocks.size() < wanted)
    blocks.push_back(take());
  return true;
}

// Releases the last block first, so that prefixes stay cached longest and never lose their start.
void block_manager::release(sequence_id id) {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return;
  const auto& blocks = it->second.blocks;
  std::for_each(blocks.rbegin(), blocks.rend(), [this](block_index block) { unhold(block); });
  owned_.erase(it);
}

void block_manager::publish(sequence_id id, std::string_view salt, std::span<const token_id> ids,
                            std::size_t computed) {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return;
  holding& own = it->second;
  for (; (own.published + 1) * block_positions_ <= computed; ++own.published) {
    const auto tokens = ids.subspan(own.published * block_positions_, block_positions_);
    const auto known = index_.find(own.at, salt, tokens);
    // Two sequences may have computed the same block concurrently: the second keeps its own copy.
    own.at = known ? known->at : index_.add(own.at, salt, tokens, own.blocks[own.published]);
  }
}

std::size_t block_manager::match_prefix(sequence_id id, std::string_view salt,
                                        std::span<const token_id> ids, std::size_t computed,
                                        const end_of_prefix& may_end) {
  const auto it = owned_.find(id);
  const std::size_t first = it == owned_.end() ? 0 : it->second.published;
  if (first * block_positions_ != computed)
    return computed; // not at a block boundary
  std::vector<prefix_index::entry> found;
  std::size_t usable = 0; // of them
  prefix_index::prefix_id at = it == owned_.end() ? 0 : it->second.at;
  for (std::size_t end = computed + block_positions_; end < ids.size(); end += block_positions_) {
    const auto known = index_.find(at, salt, ids.subspan(end - block_positions_, block_positions_));
    if (!known)
      break;
    found.push_back(*known);
    at = known->at;
    if (!may_end || may_end(at, end))
      usable = found.size();
  }
  if (usable == 0)
    return computed;
  holding& own = owned_[id];
  for (const auto& known : std::span(found).first(usable)) {
    hold(known.block);
    if (own.published < own.blocks.size())
      unhold(std::exchange(own.blocks[own.published], known.block));
    else
      own.blocks.push_back(known.block);
    own.at = known.at;
    ++own.published;
  }
  return own.published * block_positions_;
}

prefix_index::prefix_id block_manager::published_prefix(sequence_id id) const {
  const auto it = owned_.find(id);
  return it == owned_.end() ? 0 : it->second.at;
}

// Requires: free() > 0.
block_index block_manager::take() {
  block_index block = 0;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else {
    const auto oldest = evictable_.begin();
    block = oldest->second;
    index_.remove(block);
    evictable_since_.erase(block);
    evictable_.erase(oldest);
  }
  holders_[block] = 1;
  stamps_[block] = ++last_stamp_;
  return block;
}

void block_manager::hold(block_index block) {
  if (holders_[block]++ > 0)
    return;
  const auto since = evictable_since_.find(block);
  ENSURE(since != evictable_since_.end(), "block {} is in the index and neither held nor kept",
         block);
  evictable_.erase(since->second);
  evictable_since_.erase(since);
}

void block_manager::unhold(block_index block) {
  if (--holders_[block] > 0)
    return;
  if (!index_.contains(block)) {
    free_.push_back(block);
    return;
  }
  evictable_.emplace(++clock_, block);
  evictable_since_.emplace(block, clock_);
}

void block_manager::offer_swap(std::uint32_t blocks) {
  ENSURE(swapped_.empty(), "swap space changes while {} sequences are in it", swapped_.size());
  swap_total_ = blocks;
  swap_free_.resize(blocks);
  std::iota(swap_free_.rbegin(), swap_free_.rend(), block_index{0});
}

std::size_t block_manager::swapped(sequence_id id) const {
  const auto it = swapped_.find(id);
  return it == swapped_.end() ? 0 : it->second.size();
}

bool block_manager::swap_out(sequence_id id, std::size_t positions,
                             std::vector<block_copy>& copies) {
  const std::size_t count = needed(positions);
  if (count > swap_free_.size())
    return false;
  const auto blocks = of(id);
  auto& slots = swapped_[id];
  ENSURE(count <= blocks.size() && slots.empty(), "ticket {} has nothing to swap out",
         id.ticket.value);
  for (const block_index block : blocks.first(count)) {
    slots.push_back(swap_free_.back());
    swap_free_.pop_back();
    copies.push_back({block, slots.back(), /*is_out=*/true});
  }
  return true;
}

void block_manager::swap_in(sequence_id id, std::size_t from, std::vector<block_copy>& copies) {
  const auto it = swapped_.find(id);
  const auto blocks = of(id);
  ENSURE(it != swapped_.end() && it->second.size() <= blocks.size(),
         "ticket {} has nothing in swap space, or no blocks for it", id.ticket.value);
  for (std::size_t i = from / block_positions_; i < it->second.size(); ++i)
    copies.push_back({blocks[i], it->second[i], /*is_out=*/false});
  forget_swapped(id);
}

void block_manager::forget_swapped(sequence_id id) {
  const auto it = swapped_.find(id);
  if (it == swapped_.end())
    return;
  swap_free_.insert(swap_free_.end(), it->second.rbegin(), it->second.rend());
  swapped_.erase(it);
}

std::vector<block_index> block_manager::evictable() const {
  std::vector<block_index> all;
  for (const auto& [since, block] : evictable_)
    all.push_back(block);
  return all;
}

void block_manager::check_integrity() const {
  check_swap();
  std::vector<std::uint32_t> holders(total());
  std::vector<bool> is_free(total());
  const auto see_free = [&](block_index block) {
    ENSURE(block < total(), "block {} of {}", block, total());
    ENSURE(!is_free[block], "block {} is free twice", block);
    is_free[block] = true;
  };
  for (const block_index block : free_) {
    see_free(block);
    ENSURE(!index_.contains(block), "block {} is free and in the index", block);
  }
  for (const auto& [since, block] : evictable_) {
    see_free(block);
    ENSURE(index_.contains(block) && evictable_since_.at(block) == since,
           "block {} is kept for nothing", block);
  }
  ENSURE(evictable_.size() == evictable_since_.size(), "{} blocks are kept, {} known",
         evictable_.size(), evictable_since_.size());
  for (const auto& [id, own] : owned_)
    for (const block_index block : own.blocks) {
      ENSURE(block < total() && !is_free[block], "block {} is held and free", block);
      ++holders[block];
    }
  for (std::size_t block = 0; block < total(); ++block)
    ENSURE(holders[block] == holders_[block] && (holders[block] > 0) != is_free[block],
           "block {} has {} holders, {} counted", block, holders[block], holders_[block]);
}

void block_manager::check_swap() const {
  std::vector<std::uint32_t> seen(swap_total_);
  const auto see = [&](block_index slot) {
    ENSURE(slot < swap_total_, "place {} of {} in swap space", slot, swap_total_);
    ++seen[slot];
  };
  std::for_each(swap_free_.begin(), swap_free_.end(), see);
  for (const auto& [id, slots] : swapped_)
    std::for_each(slots.begin(), slots.end(), see);
  for (std::size_t slot = 0; slot < swap_total_; ++slot)
    ENSURE(seen[slot] == 1, "place {} of swap space has {} holders", slot, seen[slot]);
}

} // namespace baton::schedule
