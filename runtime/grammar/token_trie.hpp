// Texts of tokens as a tree by their bytes, in the order of a walk that goes into each branch
// before the next: so one pass over an array tries all tokens, and a byte that does not fit skips
// all that begin with it. Immutable.
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
  // Longer texts are runs of one mark: left out.
  static constexpr std::size_t bytes_max = 255;

  struct node {
    std::uint32_t behind = 0; // the first node that is not below this one
    std::uint32_t first = 0;  // of its tokens, which end with the next node's first one
    std::uint8_t byte = 0;
    std::uint8_t depth = 0; // from 1
  };

  token_trie() = default;
  // Requires: no text is empty or longer than bytes_max.
  explicit token_trie(const std::vector<token_text>& texts);

  std::size_t size() const noexcept { return nodes_.empty() ? 0 : nodes_.size() - 1; }
  const node& at(std::size_t i) const noexcept { return nodes_[i]; }
  // The tokens of nodes `from` to before `to`; requires: from <= to <= size().
  std::span<const token_id> tokens_of(std::size_t from, std::size_t to) const noexcept {
    return {tokens_.data() + nodes_[from].first, nodes_[to].first - nodes_[from].first};
  }
  std::span<const token_id> tokens() const noexcept { return tokens_; }

private:
  std::vector<node> nodes_; // one more than there are, for the end of the last one's tokens
  std::vector<token_id> tokens_;
};

} // namespace baton::grammar
