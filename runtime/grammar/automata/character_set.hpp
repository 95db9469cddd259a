// A set of Unicode characters as ranges, for the classes of regular expressions and EBNF rules. It
// never contains surrogates.
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
  // Sorted; no two touch.
  const std::vector<character_range>& ranges() const noexcept { return ranges_; }

private:
  std::vector<character_range> ranges_;
};

// The UTF-8 forms of a set of characters as sequences of byte ranges, 1 to 4 bytes long.
struct byte_pattern {
  struct range {
    std::uint8_t first = 0, last = 0;
  };
  range bytes[4];
  std::size_t size = 0;
};
std::vector<byte_pattern> utf8_patterns(const character_set& set);

std::string utf8_of(char32_t c);
// Decodes the character at `position` and advances it. nullopt if it is not UTF-8.
std::optional<char32_t> next_character(std::string_view text, std::size_t& position);

} // namespace baton::grammar
