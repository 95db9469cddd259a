#include "runtime/schedule/blocks.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton::schedule {

block_account::block_account(std::uint32_t blocks, std::uint32_t block_positions)
    : block_positions_(block_positions), free_(blocks), holders_(blocks) {
  ENSURE(block_positions > 0, "blocks of no positions");
  std::iota(free_.rbegin(), free_.rend(), block_index{0});
}

std::span<const block_index> block_account::of(sequence_id id) const {
  const auto it = owned_.find(id);
  return it == owned_.end() ? std::span<const block_index>{} : it->second.blocks;
}

bool block_account::grow(sequence_id id, std::size_t positions) {
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

// The last block first: what is kept longest is the beginning, and nothing kept has lost it.
void block_account::release(sequence_id id) {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return;
  const auto& blocks = it->second.blocks;
  std::for_each(blocks.rbegin(), blocks.rend(), [this](block_index block) { let_go(block); });
  owned_.erase(it);
}

void block_account::publish(sequence_id id, std::string_view salt, std::span<const token_id> ids,
                            std::size_t computed) {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return;
  holding& own = it->second;
  for (; (own.published + 1) * block_positions_ <= computed; ++own.published) {
    const auto tokens = ids.subspan(own.published * block_positions_, block_positions_);
    const auto known = index_.find(own.at, salt, tokens);
    // Two may have computed the same at the same time: the second one's stays its own.
    own.at = known ? known->at : index_.add(own.at, salt, tokens, own.blocks[own.published]);
  }
}

std::size_t block_account::adopt(sequence_id id, std::string_view salt,
                                 std::span<const token_id> ids, std::size_t computed) {
  holding* own = nullptr;
  if (const auto it = owned_.find(id); it != owned_.end())
    own = &it->second;
  std::size_t count = own ? own->published : 0;
  if (count * block_positions_ != computed)
    return computed; // in the middle of a block
  while ((count + 1) * block_positions_ < ids.size()) {
    const auto tokens = ids.subspan(count * block_positions_, block_positions_);
    const auto known = index_.find(own ? own->at : 0, salt, tokens);
    if (!known)
      break;
    if (!own)
      own = &owned_[id];
    hold(known->block);
    if (count < own->blocks.size())
      let_go(std::exchange(own->blocks[count], known->block));
    else
      own->blocks.push_back(known->block);
    own->at = known->at;
    own->published = ++count;
  }
  return count * block_positions_;
}

// Requires: free() > 0.
block_index block_account::take() {
  block_index block = 0;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else {
    const auto oldest = kept_.begin();
    block = oldest->second;
    index_.remove(block);
    kept_since_.erase(block);
    kept_.erase(oldest);
  }
  holders_[block] = 1;
  return block;
}

void block_account::hold(block_index block) {
  if (holders_[block]++ > 0)
    return;
  const auto since = kept_since_.find(block);
  ENSURE(since != kept_since_.end(), "block {} is in the index and neither held nor kept", block);
  kept_.erase(since->second);
  kept_since_.erase(since);
}

void block_account::let_go(block_index block) {
  if (--holders_[block] > 0)
    return;
  if (!index_.contains(block)) {
    free_.push_back(block);
    return;
  }
  kept_.emplace(++clock_, block);
  kept_since_.emplace(block, clock_);
}

void block_account::check_integrity() const {
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
  for (const auto& [since, block] : kept_) {
    see_free(block);
    ENSURE(index_.contains(block) && kept_since_.at(block) == since, "block {} is kept for nothing",
           block);
  }
  ENSURE(kept_.size() == kept_since_.size(), "{} blocks are kept, {} known", kept_.size(),
         kept_since_.size());
  for (const auto& [id, own] : owned_)
    for (const block_index block : own.blocks) {
      ENSURE(block < total() && !is_free[block], "block {} is held and free", block);
      ++holders[block];
    }
  for (std::size_t block = 0; block < total(); ++block)
    ENSURE(holders[block] == holders_[block] && (holders[block] > 0) != is_free[block],
           "block {} has {} holders, {} counted", block, holders[block], holders_[block]);
}

} // namespace baton::schedule
