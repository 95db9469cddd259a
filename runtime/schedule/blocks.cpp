#include "runtime/schedule/blocks.hpp"

#include "schema/ensure.hpp"

#include <numeric>

namespace baton::schedule {

block_account::block_account(std::uint32_t blocks, std::uint32_t block_positions)
    : total_(blocks), block_positions_(block_positions), free_(blocks) {
  ENSURE(block_positions > 0, "blocks of no positions");
  std::iota(free_.rbegin(), free_.rend(), block_index{0});
}

std::span<const block_index> block_account::of(sequence_id id) const {
  const auto it = owned_.find(id);
  return it == owned_.end() ? std::span<const block_index>{} : it->second;
}

bool block_account::grow(sequence_id id, std::size_t positions) {
  const std::size_t wanted = needed(positions);
  const std::size_t held = of(id).size();
  if (wanted <= held)
    return true;
  const std::size_t more = wanted - held;
  if (more > free_.size())
    return false;
  auto& blocks = owned_[id];
  blocks.insert(blocks.end(), free_.rbegin(), free_.rbegin() + static_cast<std::ptrdiff_t>(more));
  free_.resize(free_.size() - more);
  return true;
}

void block_account::release(sequence_id id) {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return;
  free_.insert(free_.end(), it->second.rbegin(), it->second.rend());
  owned_.erase(it);
}

void block_account::check_integrity() const {
  std::vector<bool> seen(total_);
  std::size_t count = 0;
  const auto see = [&](block_index block) {
    ENSURE(block < total_, "block {} of {}", block, total_);
    ENSURE(!seen[block], "block {} is held twice", block);
    seen[block] = true;
    ++count;
  };
  for (const block_index block : free_)
    see(block);
  for (const auto& [id, blocks] : owned_)
    for (const block_index block : blocks)
      see(block);
  ENSURE(count == total_, "{} of {} blocks are accounted for", count, total_);
}

} // namespace baton::schedule
