// Finds special tokens such as <|im_start|> that a prompt contains literally. Used by the
// tokenizer. Immutable once built.
#pragma once

#include "runtime/text/bpe/piece_trie.hpp"
#include "runtime/text/pre_tokenizers/pre_tokenizer.hpp"
#include "schema/ids.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

struct special_token {
  std::string text; // not empty
  token_id id;
  bool in_any_text; // a run of white space: not a command, so user text may yield it
};

struct special_match {
  text_range where;
  token_id id;
};

class special_tokens {
public:
  explicit special_tokens(std::vector<special_token> tokens);

  // The leftmost token at or after `from`; of those that begin there, the longest. Unless it is
  // in_any_text, it must lie within one of the `trusted` ranges, which are sorted and disjoint.
  std::optional<special_match> find(std::string_view text, std::size_t from,
                                    std::span<const text_range> trusted) const;

private:
  // The longest token that begins at `at` and, unless it is in_any_text, ends by `trusted_end`.
  std::optional<special_match> longest(std::string_view text, std::size_t at,
                                       std::size_t trusted_end) const;

  std::vector<special_token> tokens_; // of equal texts, the first
  piece_trie by_text_;                // indices into tokens_
  bool any_in_any_text_ = false;
};

} // namespace baton::text
