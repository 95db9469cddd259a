// Token texts as a byte tree, stored in depth-first order. One pass over the array tries all
// tokens, and a byte that does not match skips its whole subtree. Immutable.
#pragma once

#include "schema/ids.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace baton::grammar {

struct token_text {
  std::string_view bytes;
  token_id id = 0;
};

class token_trie {
public:
  // Longer texts are runs of one mark and are omitted.
  static constexpr std::size_t bytes_max = 255;

  struct node {
    std::uint32_t subtree_end = 0; // the first node after its subtree
    std::uint32_t first = 0;       // its first token; its tokens end at the next node's first
    std::uint8_t byte = 0;
    std::uint8_t depth = 0; // from 1
  };

  token_trie() = default;
  // Requires: no text is empty or longer than bytes_max.
  explicit token_trie(const std::vector<token_text>& texts);

  std::size_t size() const noexcept { return nodes_.empty() ? 0 : nodes_.size() - 1; }
  const node& at(std::size_t i) const noexcept { return nodes_[i]; }
  // The tokens of nodes `from` to before `to`. Requires: from <= to <= size().
  std::span<const token_id> tokens_of(std::size_t from, std::size_t to) const noexcept {
    return {tokens_.data() + nodes_[from].first, nodes_[to].first - nodes_[from].first};
  }
  std::span<const token_id> tokens() const noexcept { return tokens_; }

private:
  std::vector<node> nodes_; // one extra node marks the end of the last tokens
  std::vector<token_id> tokens_;
};

} // namespace baton::grammar
