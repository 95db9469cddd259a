// UTF-8, one sequence at a time, by Table 3-7 of the Unicode Standard: no overlong forms, no
// surrogates, nothing above U+10FFFF. Used by the tokenizer (what to hand to the patterns) and by
// the detokenizer (what to hold back). Never changes bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace baton::text {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD"; // U+FFFD
inline constexpr std::size_t utf8_bytes_max = 4;

struct utf8_sequence {
  enum class state { valid, invalid, incomplete };
  state is;
  // valid: bytes of the character. invalid: bytes that one U+FFFD stands for ("maximal subpart", as
  // Python's and Rust's decoders replace). incomplete: all that is left; more bytes could make it
  // valid.
  std::size_t length;
};

// Requires: position < bytes.size().
utf8_sequence utf8_at(std::string_view bytes, std::size_t position) noexcept;

// Characters that begin in `bytes`; of what is no UTF-8, bytes that could begin one.
std::size_t utf8_characters(std::string_view bytes) noexcept;

// Length of the longest well-formed beginning of `bytes`.
std::size_t utf8_valid_prefix(std::string_view bytes) noexcept;

} // namespace baton::text
