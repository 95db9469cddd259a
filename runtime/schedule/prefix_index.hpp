// Which block holds the keys and values of which beginning of a text: a tree whose edges are the
// tokens of one whole block (RadixAttention, arXiv 2312.07104, in steps of a block). Exact: tokens
// are compared, not only their hashes, so no text can be made to meet another's blocks.
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
  // All tokens from the beginning of a text to the end of one of its blocks. 0: nothing yet.
  using place = std::uint64_t;
  struct entry {
    place at = 0;
    block_index block = 0;
  };

  // What holds the `tokens` that follow `from`. Texts of different salts never meet.
  std::optional<entry> find(place from, std::string_view salt,
                            std::span<const token_id> tokens) const;
  // Requires: find() is nothing, the block is not in the index.
  place add(place from, std::string_view salt, std::span<const token_id> tokens, block_index block);
  // What follows the block can no longer be found: remove it first. Nothing if it is not there.
  void remove(block_index block);
  bool contains(block_index block) const { return keys_.contains(block); }
  std::size_t size() const noexcept { return keys_.size(); }

private:
  static std::string key_of(place from, std::string_view salt, std::span<const token_id> tokens);

  std::unordered_map<std::string, entry> entries_;
  std::unordered_map<block_index, std::string> keys_;
  place last_ = 0;
};

} // namespace baton::schedule
