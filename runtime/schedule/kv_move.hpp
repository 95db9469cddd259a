// Which KV blocks have to be copied, and when, if the layers go to other shards while sequences
// run: what is full does not change any more and goes ahead, the rest follows once nothing is in
// flight. Pure; knows nothing of who copies, or where to.
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
  std::uint64_t stamp = 0; // another one whenever it is filled anew
  bool is_full = false;    // and every position acknowledged
};

//   ahead, ahead ... (while steps run) --nothing in flight--> rest --> the other shards go on
class kv_move {
public:
  // At most so many blocks that are full and have not gone yet; now they have. One that is filled
  // anew before it was copied goes once more.
  std::vector<block_index> ahead(std::span<const held_block> held, std::size_t most);
  // All that have not gone as they are now. Requires: nothing is in flight, nor will be until they
  // are copied.
  std::vector<block_index> rest(std::span<const held_block> held) const;

private:
  bool has_gone(const held_block& b) const;
  std::unordered_map<block_index, std::uint64_t> gone_; // with which stamp
};

} // namespace baton::schedule
