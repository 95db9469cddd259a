#include "runtime/schedule/kv_move.hpp"

#include "runtime/schedule/scheduler.hpp"

#include <map>

namespace baton::schedule {

bool kv_move::is_sent(const held_block& b) const {
  const auto it = sent_.find(b.block);
  return it != sent_.end() && it->second == b.stamp;
}

std::vector<block_index> kv_move::ahead(std::span<const held_block> held, std::size_t most) {
  std::vector<block_index> now;
  for (const auto& b : held) {
    if (now.size() == most)
      break;
    if (!b.is_full || is_sent(b))
      continue;
    sent_[b.block] = b.stamp;
    now.push_back(b.block);
  }
  return now;
}

std::vector<block_index> kv_move::rest(std::span<const held_block> held) const {
  std::vector<block_index> now;
  for (const auto& b : held)
    if (!is_sent(b))
      now.push_back(b.block);
  return now;
}

// While a sequence returns from swap space, the stages may not have made its copies yet. A shared
// block is full if it is full for any of its sequences.
std::vector<held_block> scheduler::held_blocks() const {
  std::map<block_index, bool> is_full;
  for (const auto& [who, s] : sequences_) {
    const auto blocks = blocks_.of(s.id);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      is_full[blocks[i]] |= s.copying == 0 && (i + 1) * shape_.block_positions <= s.computed;
  }
  for (const auto block : blocks_.evictable())
    is_full[block] = true;
  std::vector<held_block> all;
  all.reserve(is_full.size());
  for (const auto& [block, full] : is_full)
    all.push_back({block, blocks_.stamp(block), full});
  return all;
}

} // namespace baton::schedule
