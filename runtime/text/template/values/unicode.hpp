// Code points of UTF-8 text, as Python counts and classifies them. A byte of invalid UTF-8 counts
// as one code point.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace baton::text::jinja {

struct code_point {
  char32_t number;
  std::size_t bytes; // 1 to 4
  bool is_valid;
};

// Requires: at < text.size().
code_point code_point_at(std::string_view text, std::size_t at) noexcept;
std::size_t count_code_points(std::string_view text) noexcept;
// The byte offset of code point `index`; text.size() if there are fewer.
std::size_t offset_of(std::string_view text, std::size_t index) noexcept;
void append_utf8(std::string& out, char32_t number);

// Python's str.isspace.
bool is_space(char32_t c) noexcept;
// Simple one-to-one mappings of Unicode 14: "ß" stays unchanged, where Python writes "SS".
char32_t to_upper(char32_t c) noexcept;
char32_t to_lower(char32_t c) noexcept;
inline bool is_cased(char32_t c) noexcept {
  return to_upper(c) != c || to_lower(c) != c;
}

// Every `stride`-th code point of [first, last] is shifted by `delta`.
struct case_range {
  char32_t first;
  char32_t last;
  int stride;
  int delta;
};
std::span<const case_range> upper_ranges() noexcept; // sorted, beyond ASCII
std::span<const case_range> lower_ranges() noexcept;

} // namespace baton::text::jinja
