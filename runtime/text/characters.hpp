// Characters of a text by Unicode's properties, from the tables of utf8proc. Bytes that are no
// UTF-8 are taken one by one. Used by the text steps of a tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace baton::text {

struct code_point {
  std::int32_t value; // negative: a byte that is no UTF-8
  std::size_t length;
};

// Requires: at < text.size().
code_point code_point_at(std::string_view text, std::size_t at) noexcept;

// Whether it has the property White_Space.
bool is_white_space(code_point character) noexcept;

// Bytes of the extended grapheme cluster (UAX #29) that `text` begins with. Requires: not empty.
std::size_t cluster_bytes(std::string_view text) noexcept;

} // namespace baton::text
