// Unicode properties of characters, from the tables of utf8proc. Invalid UTF-8 is taken byte by
// byte. Used by the text steps of a tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baton::text {

struct code_point {
  std::int32_t value; // negative: an invalid byte
  std::size_t length;
};

// Requires: at < text.size().
code_point code_point_at(std::string_view text, std::size_t at) noexcept;

// Whether the character has the property White_Space.
bool is_white_space(code_point character) noexcept;

// Bytes of the extended grapheme cluster (UAX #29) that `text` begins with. Requires: not empty.
std::size_t cluster_bytes(std::string_view text) noexcept;

} // namespace baton::text
