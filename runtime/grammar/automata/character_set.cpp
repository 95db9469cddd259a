#include "runtime/grammar/automata/character_set.hpp"

#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

constexpr character_range surrogates{0xD800, 0xDFFF};

// Patterns for `first` to `last`, which have the same UTF-8 length and contain no surrogates. A
// range is cut where its continuation bytes do not cover all values.
void add_patterns(char32_t first, char32_t last, std::size_t bytes,
                  std::vector<byte_pattern>& out) {
  for (std::size_t tail = 1; tail < bytes; ++tail) {
    const char32_t low = (char32_t{1} << (6 * tail)) - 1;
    if ((first & ~low) == (last & ~low))
      continue;
    if ((first & low) != 0) {
      add_patterns(first, first | low, bytes, out);
      return add_patterns((first | low) + 1, last, bytes, out);
    }
    if ((last & low) != low) {
      add_patterns(first, (last & ~low) - 1, bytes, out);
      return add_patterns(last & ~low, last, bytes, out);
    }
  }
  const std::string from = utf8_of(first), to = utf8_of(last);
  byte_pattern p;
  p.size = bytes;
  for (std::size_t i = 0; i < bytes; ++i)
    p.bytes[i] = {static_cast<std::uint8_t>(from[i]), static_cast<std::uint8_t>(to[i])};
  out.push_back(p);
}

} // namespace

character_set::character_set(std::initializer_list<character_range> ranges) {
  for (const auto& r : ranges)
    add(r.first, r.last);
}

void character_set::add(char32_t first, char32_t last) {
  last = std::min(last, character_max);
  if (first > last)
    return;
  if (first <= surrogates.last && last >= surrogates.first) {
    if (first < surrogates.first)
      add(first, surrogates.first - 1);
    if (last > surrogates.last)
      add(surrogates.last + 1, last);
    return;
  }
  // Merges ranges that touch the new one.
  auto begin =
      std::lower_bound(ranges_.begin(), ranges_.end(), first,
                       [](const character_range& r, char32_t c) { return r.last + 1 < c; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void character_set::add(const character_set& other) {
  for (const auto& r : other.ranges_)
    add(r.first, r.last);
}

character_set character_set::inverted() const {
  character_set out;
  char32_t next = 0;
  for (const auto& r : ranges_) {
    if (r.first > next)
      out.add(next, r.first - 1);
    next = r.last + 1;
  }
  if (next <= character_max)
    out.add(next, character_max);
  return out;
}

character_set character_set::within(const character_set& other) const {
  character_set out;
  auto b = other.ranges_.begin();
  for (const auto& a : ranges_) {
    while (b != other.ranges_.end() && b->last < a.first)
      ++b;
    for (auto c = b; c != other.ranges_.end() && c->first <= a.last; ++c)
      out.add(std::max(a.first, c->first), std::min(a.last, c->last));
  }
  return out;
}

character_set character_set::without(const character_set& other) const {
  return within(other.inverted());
}

bool character_set::contains(char32_t c) const noexcept {
  const auto it = std::lower_bound(ranges_.begin(), ranges_.end(), c,
                                   [](const character_range& r, char32_t v) { return r.last < v; });
  return it != ranges_.end() && it->first <= c;
}

std::vector<byte_pattern> utf8_patterns(const character_set& set) {
  constexpr char32_t lasts[] = {0x7F, 0x7FF, 0xFFFF, character_max}; // of 1, 2, 3, 4 bytes
  std::vector<byte_pattern> out;
  for (const auto& r : set.ranges()) {
    char32_t first = r.first;
    for (std::size_t bytes = 1; bytes <= 4 && first <= r.last; ++bytes) {
      if (first > lasts[bytes - 1])
        continue;
      const char32_t last = std::min(r.last, lasts[bytes - 1]);
      add_patterns(first, last, bytes, out);
      first = last + 1;
    }
  }
  return out;
}

std::string utf8_of(char32_t c) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (c < 0x80)
    return {byte(c)};
  if (c < 0x800)
    return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000)
    return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
          byte(0x80 | (c & 0x3F))};
}

std::optional<char32_t> next_character(std::string_view text, std::size_t& position) {
  const auto sequence = text::utf8_at(text, position);
  if (sequence.is != text::utf8_sequence::state::valid)
    return std::nullopt;
  const auto at = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  constexpr char32_t lead_bits[] = {0x7F, 0x1F, 0x0F, 0x07};
  char32_t c = at(0) & lead_bits[sequence.length - 1];
  for (std::size_t i = 1; i < sequence.length; ++i)
    c = c << 6 | (at(i) & 0x3F);
  position += sequence.length;
  return c;
}

} // namespace baton::grammar
