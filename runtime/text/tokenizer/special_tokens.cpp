// Leftmost-longest search for a few hundred literal tokens; see special_tokens.hpp. With a prefix
// tree, a text full of token prefixes needs no comparison with each token.
#include "runtime/text/tokenizer/special_tokens.hpp"

#include <algorithm>
#include <utility>

namespace baton::text {

namespace {

std::vector<piece_trie::entry> entries_of(const std::vector<special_token>& tokens) {
  std::vector<piece_trie::entry> entries;
  entries.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    entries.push_back({tokens[i].text, static_cast<token_id>(i)});
  return entries;
}

} // namespace

special_tokens::special_tokens(std::vector<special_token> tokens)
    : tokens_(std::move(tokens)), by_text_(entries_of(tokens_)),
      any_in_any_text_(std::any_of(tokens_.begin(), tokens_.end(),
                                   [](const special_token& t) { return t.in_any_text; })) {}

std::optional<special_match> special_tokens::longest(std::string_view text, std::size_t at,
                                                     std::size_t trusted_end) const {
  std::optional<special_match> found;
  auto node = by_text_.child(piece_trie::root, text[at]);
  for (std::size_t end = at + 1; node; ++end) {
    if (const auto index = by_text_.id(*node)) {
      const special_token& token = tokens_[static_cast<std::size_t>(*index)];
      if (token.in_any_text || end <= trusted_end)
        found = special_match{{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)},
                              token.id};
    }
    node = end < text.size() ? by_text_.child(*node, text[end]) : std::nullopt;
  }
  return found;
}

std::optional<special_match> special_tokens::find(std::string_view text, std::size_t from,
                                                  std::span<const text_range> trusted) const {
  auto range = std::partition_point(trusted.begin(), trusted.end(),
                                    [from](text_range before) { return before.end <= from; });
  for (std::size_t at = from; at < text.size(); ++at) {
    while (range != trusted.end() && range->end <= at)
      ++range;
    const bool is_trusted = range != trusted.end() && range->begin <= at;
    if (!is_trusted && !any_in_any_text_) { // nothing can begin before the next trusted range
      if (range == trusted.end())
        return std::nullopt;
      at = range->begin;
    }
    const std::size_t trusted_end = range != trusted.end() && range->begin <= at ? range->end : at;
    if (auto found = longest(text, at, trusted_end))
      return found;
  }
  return std::nullopt;
}

} // namespace baton::text
