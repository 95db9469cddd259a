// Walks an untrusted double array; see character_map.hpp.
#include "runtime/text/unicode/character_map.hpp"

#include <algorithm>

namespace baton::text {

namespace {

constexpr std::size_t unit_bytes = sizeof(std::uint32_t);
// No replacement of NFKC exceeds 33 bytes. The bound keeps a rewritten text below 4 GiB.
constexpr std::size_t replacement_bytes_max = 256;
// The longest sequence of published maps has 12 bytes. The bound keeps hostile maps linear.
constexpr std::size_t key_bytes_max = 64;

std::uint32_t u32_at(std::string_view bytes, std::size_t at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = unit_bytes; i-- > 0;)
    value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// Fields of a unit: the relative offset of its children, the byte that leads to it, and whether a
// value ends here. A leaf points to a unit with the value.
std::uint32_t offset_of(std::uint32_t unit) noexcept {
  return (unit >> 10U) << ((unit & (1U << 9U)) >> 6U);
}
std::uint32_t label_of(std::uint32_t unit) noexcept {
  return unit & ((1U << 31U) | 0xFFU);
}
bool has_leaf(std::uint32_t unit) noexcept {
  return ((unit >> 8U) & 1U) != 0;
}
std::uint32_t value_of(std::uint32_t unit) noexcept {
  return unit & ~(1U << 31U);
}

std::size_t longest_of(std::string_view replacements) {
  std::size_t longest = 0;
  for (std::size_t at = 0; at < replacements.size();) {
    const std::size_t end = replacements.find('\0', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  return longest;
}

} // namespace

result<character_map> character_map::create(std::string_view table) {
  character_map made;
  if (table.empty())
    return made;
  const std::size_t trie_bytes = table.size() < unit_bytes ? 0 : u32_at(table, 0);
  if (trie_bytes == 0 || trie_bytes % unit_bytes != 0 || trie_bytes > table.size() - unit_bytes)
    return fail(errc::bad_model_file,
                "precompiled_charsmap: a table of {} bytes holds no trie of {} bytes", table.size(),
                trie_bytes);
  for (std::size_t at = 0; at < trie_bytes; at += unit_bytes)
    made.units_.push_back(u32_at(table, unit_bytes + at));
  made.replacements_ = table.substr(unit_bytes + trie_bytes);
  if (made.replacements_.empty() || made.replacements_.back() != '\0')
    return fail(errc::bad_model_file, "precompiled_charsmap: the last replacement has no end");
  if (longest_of(made.replacements_) > replacement_bytes_max)
    return fail(errc::bad_model_file, "precompiled_charsmap: a replacement has more than {} bytes",
                replacement_bytes_max);
  return made;
}

std::optional<character_map::match> character_map::find(std::string_view text) const noexcept {
  return find(text, extent::longest);
}

std::optional<character_map::match>
character_map::find_shortest(std::string_view text) const noexcept {
  return find(text, extent::shortest);
}

std::optional<character_map::match> character_map::find(std::string_view text,
                                                        extent which) const noexcept {
  if (units_.empty())
    return std::nullopt;
  std::optional<match> best;
  std::size_t at = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size() && i < key_bytes_max; ++i) {
    const std::uint32_t byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= units_.size() || label_of(units_[at]) != byte)
      break;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit))
      continue;
    if (at >= units_.size() || value_of(units_[at]) >= replacements_.size())
      break;
    best = match{replacements_.c_str() + value_of(units_[at]), i + 1};
    if (which == extent::shortest)
      break;
  }
  return best;
}

} // namespace baton::text
