// UTF-8, one sequence at a time, by Table 3-7 of the Unicode Standard: no overlong forms, no
// surrogates, nothing above U+10FFFF. Used by the tokenizer (input of the patterns) and the
// detokenizer (text to hold back). Never changes bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace baton::text {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD"; // U+FFFD
inline constexpr std::size_t utf8_bytes_max = 4;

struct utf8_sequence {
  enum class state { valid, invalid, incomplete };
  state is;
  // `valid`: size of the character. `invalid`: bytes that one U+FFFD replaces ("maximal subpart",
  // as in Python and Rust). `incomplete`: size of the rest; more bytes could make it valid.
  std::size_t length;
};

// Requires: position < bytes.size().
utf8_sequence utf8_at(std::string_view bytes, std::size_t position) noexcept;

// Number of characters that begin in `bytes`; in invalid UTF-8, of bytes that could begin one.
std::size_t utf8_characters(std::string_view bytes) noexcept;

// Length of the longest well-formed prefix of `bytes`.
std::size_t utf8_valid_prefix(std::string_view bytes) noexcept;

} // namespace baton::text
