// A set of Unicode characters as ranges: what a class of a regular expression or of an EBNF rule
// says. Surrogates are never in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::grammar {

inline constexpr char32_t character_max = 0x10FFFF;

struct character_range {
  char32_t first = 0, last = 0;
  friend bool operator==(const character_range&, const character_range&) = default;
};

class character_set {
public:
  character_set() = default;
  character_set(std::initializer_list<character_range> ranges);
  static character_set all() { return {{0, character_max}}; }

  void add(char32_t first, char32_t last);
  void add(char32_t c) { add(c, c); }
  void add(const character_set& other);

  character_set inverted() const;
  character_set without(const character_set& other) const;
  character_set within(const character_set& other) const;

  bool contains(char32_t c) const noexcept;
  bool is_empty() const noexcept { return ranges_.empty(); }
  // In order, apart from one another.
  const std::vector<character_range>& ranges() const noexcept { return ranges_; }

private:
  std::vector<character_range> ranges_;
};

// The UTF-8 of characters from `first` to `last` as sequences of ranges of bytes: of 1 to 4 bytes.
struct byte_pattern {
  struct range {
    std::uint8_t first = 0, last = 0;
  };
  range bytes[4];
  std::size_t size = 0;
};
std::vector<byte_pattern> utf8_patterns(const character_set& set);

std::string utf8_of(char32_t c);
// The character that begins at `position`, which moves behind it. Nothing: that is no UTF-8.
std::optional<char32_t> next_character(std::string_view text, std::size_t& position);

} // namespace baton::grammar
