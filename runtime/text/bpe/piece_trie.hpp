// A prefix tree of token texts: finds the tokens that begin at a position, and the longest of them.
// Built by the tokenizer's encoders. Immutable once built; 9 bytes a node.
#pragma once

#include "schema/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

class piece_trie {
public:
  struct entry {
    std::string text; // not empty
    token_id id;
  };
  struct match {
    token_id id;
    std::size_t length;
  };
  using node = std::uint32_t;
  static constexpr node root = 0;

  // Among entries with the same text, the first one counts.
  explicit piece_trie(std::vector<entry> entries);

  std::optional<node> child(node parent, char label) const noexcept;
  std::optional<token_id> id(node at) const noexcept;

  // The longest entry that is a prefix of `text`.
  std::optional<match> longest(std::string_view text) const noexcept;
  // The entry that equals `text`.
  std::optional<token_id> find(std::string_view text) const noexcept;

private:
  static constexpr token_id no_token = -1;

  // Nodes by level, so a node's children are adjacent, sorted by label.
  std::vector<unsigned char> labels_;
  std::vector<token_id> ids_;
  std::vector<node>
      first_child_; // [nodes + 1]: children are [first_child_[n], first_child_[n + 1])
};

} // namespace baton::text
