// A prefix tree of token texts: which tokens begin here, and the longest of them. Built by the
// tokenizer's encoders. Immutable once built; 9 bytes a node.
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

  // Of entries with the same text the first counts.
  explicit piece_trie(std::vector<entry> entries);

  std::optional<node> child(node parent, char label) const noexcept;
  std::optional<token_id> id(node at) const noexcept;

  // The longest entry that `text` begins with.
  std::optional<match> longest(std::string_view text) const noexcept;
  // The entry that is `text`.
  std::optional<token_id> find(std::string_view text) const noexcept;

private:
  static constexpr token_id no_token = -1;

  // Nodes by level, so that the children of one lie side by side, sorted by label.
  std::vector<unsigned char> labels_;
  std::vector<token_id> ids_;
  std::vector<node>
      first_child_; // [nodes + 1]: children are [first_child_[n], first_child_[n + 1])
};

} // namespace baton::text
