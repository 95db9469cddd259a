// Maps prefixes of token sequences to the blocks with their keys and values. A tree whose edges are
// the tokens of one whole block (RadixAttention, arXiv 2312.07104, at block granularity). Exact:
// tokens are compared, not only hashes, so no text can be made to match another's blocks.
#pragma once

#include "schema/ids.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace baton::schedule {

class prefix_index {
public:
  // All tokens from the beginning of a text to the end of one of its blocks. 0: empty.
  using prefix_id = std::uint64_t;
  struct entry {
    prefix_id at = 0;
    block_index block = 0;
  };

  // The block of the `tokens` that follow `from`. Texts with different salts never match.
  std::optional<entry> find(prefix_id from, std::string_view salt,
                            std::span<const token_id> tokens) const;
  // Requires: find() is empty, and the block is not in the index.
  prefix_id add(prefix_id from, std::string_view salt, std::span<const token_id> tokens,
                block_index block);
  // Blocks behind it become unreachable: remove them first. No effect if it is not in the index.
  void remove(block_index block);
  bool contains(block_index block) const { return keys_.contains(block); }
  std::size_t size() const noexcept { return keys_.size(); }

private:
  static std::string key_of(prefix_id from, std::string_view salt,
                            std::span<const token_id> tokens);

  std::unordered_map<std::string, entry> entries_;
  std::unordered_map<block_index, std::string> keys_;
  prefix_id last_ = 0;
};

} // namespace baton::schedule
