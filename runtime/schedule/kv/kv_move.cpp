#include "runtime/schedule/kv/kv_move.hpp"

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

} // namespace baton::schedule
