// UTF-8 decoding and character classes.
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>

namespace baton::text::jinja {

namespace {

char32_t map_case(std::span<const case_range> ranges, char32_t c) noexcept {
  const auto r = std::partition_point(ranges.begin(), ranges.end(),
                                      [&](const case_range& range) { return range.last < c; });
  if (r == ranges.end() || c < r->first || (c - r->first) % static_cast<char32_t>(r->stride) != 0) {
    return c;
  }
  return static_cast<char32_t>(static_cast<int>(c) + r->delta);
}

} // namespace

code_point code_point_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1, true};
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) {
    return {lead, 1, false};
  }
  char32_t number = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) {
      return {lead, 1, false};
    }
    number = (number << 6) | (byte(i) & 0x3Fu);
  }
  const bool is_overlong = (length == 3 && number < 0x800) || (length == 4 && number < 0x10000);
  if (is_overlong || number > 0x10FFFF || (number >= 0xD800 && number < 0xE000)) {
    return {lead, 1, false};
  }
  return {number, length, true};
}

std::size_t count_code_points(std::string_view text) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).bytes) {
    ++count;
  }
  return count;
}

std::size_t offset_of(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    at += code_point_at(text, at).bytes;
  }
  return at;
}

void append_utf8(std::string& out, char32_t number) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (number < 0x80) {
    put(number);
  } else if (number < 0x800) {
    put(0xC0 | (number >> 6));
    put(0x80 | (number & 0x3F));
  } else if (number < 0x10000) {
    put(0xE0 | (number >> 12));
    put(0x80 | ((number >> 6) & 0x3F));
    put(0x80 | (number & 0x3F));
  } else {
    put(0xF0 | (number >> 18));
    put(0x80 | ((number >> 12) & 0x3F));
    put(0x80 | ((number >> 6) & 0x3F));
    put(0x80 | (number & 0x3F));
  }
}

bool is_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

char32_t to_upper(char32_t c) noexcept {
  if (c < 0x80) {
    return c >= 'a' && c <= 'z' ? c - 32 : c;
  }
  return map_case(upper_ranges(), c);
}

char32_t to_lower(char32_t c) noexcept {
  if (c < 0x80) {
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
  }
  return map_case(lower_ranges(), c);
}

} // namespace baton::text::jinja
