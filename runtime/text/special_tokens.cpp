// Leftmost-longest search over a few hundred literal tokens; see special_tokens.hpp.
#include "runtime/text/special_tokens.hpp"

#include <algorithm>
#include <utility>

namespace baton::text {

namespace {

unsigned char byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

} // namespace

special_tokens::special_tokens(std::vector<special_token> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) {
    const auto first_a = byte_at(a.text, 0);
    const auto first_b = byte_at(b.text, 0);
    return first_a != first_b ? first_a < first_b : a.text.size() > b.text.size();
  });
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    first_byte& group = by_first_byte_[byte_at(tokens_[i].text, 0)];
    if (group.end == 0)
      group.begin = i;
    group.end = i + 1;
    group.in_any_text = group.in_any_text || tokens_[i].in_any_text;
    any_in_any_text_ = any_in_any_text_ || tokens_[i].in_any_text;
  }
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
    const first_byte& group = by_first_byte_[byte_at(text, at)];
    if (trusted_end == at && !group.in_any_text)
      continue;
    for (std::uint32_t i = group.begin; i < group.end; ++i) {
      const special_token& token = tokens_[i];
      if (!token.in_any_text && at + token.text.size() > trusted_end)
        continue;
      if (text.substr(at, token.text.size()) == token.text)
        return special_match{
            {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + token.text.size())},
            token.id};
    }
  }
  return std::nullopt;
}

} // namespace baton::text
