// Finds in a prompt the tokens that are written out whole: <|im_start|> and its like. Called by the
// tokenizer. Immutable once built.
#pragma once

#include "runtime/text/pre_tokenizer.hpp"
#include "schema/ids.hpp"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text {

struct special_token {
  std::string text; // not empty
  token_id id;
  bool in_any_text; // a run of white space: carries no command, so a user's text may yield it
};

struct special_match {
  text_range where;
  token_id id;
};

class special_tokens {
public:
  explicit special_tokens(std::vector<special_token> tokens);

  // The leftmost token at or after `from`, the longest of those that begin there. One that is not
  // in_any_text must lie within one of the `trusted` ranges, which are sorted and do not touch.
  std::optional<special_match> find(std::string_view text, std::size_t from,
                                    std::span<const text_range> trusted) const;

private:
  struct first_byte {
    std::uint32_t begin = 0; // of tokens_
    std::uint32_t end = 0;
    bool in_any_text = false; // one of them is
  };

  std::vector<special_token> tokens_; // by first byte, the longest first
  std::array<first_byte, 256> by_first_byte_{};
  bool any_in_any_text_ = false;
};

} // namespace baton::text
