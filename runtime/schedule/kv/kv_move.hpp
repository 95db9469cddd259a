// Selects the KV blocks to copy when layers move to other shards while sequences run. Full blocks
// no longer change and are copied ahead; the rest follows once nothing is in flight. Pure;
// independent of the copy's mechanism and target.
#pragma once

#include "schema/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace baton::schedule {

struct held_block {
  block_index block = 0;
  std::uint64_t stamp = 0; // changes whenever the block is filled anew
  bool is_full = false;    // with every position acknowledged
};

//   ahead, ahead ... (while steps run) --nothing in flight--> rest --> the other shards go on
class kv_move {
public:
  // Up to `most` full blocks that were not returned before. A block that is filled anew before it
  // was copied is returned again.
  std::vector<block_index> ahead(std::span<const held_block> held, std::size_t most);
  // All blocks not yet copied in their current state. Requires: nothing is in flight until they are
  // copied.
  std::vector<block_index> rest(std::span<const held_block> held) const;

private:
  bool is_sent(const held_block& b) const;
  std::unordered_map<block_index, std::uint64_t> sent_; // with their stamps
};

} // namespace baton::schedule
