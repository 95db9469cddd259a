// Implements Table 3-7 of the Unicode Standard; see utf8.hpp.
#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace baton::text {

namespace {

struct lead {
  std::size_t length;  // of the whole sequence; 0: no sequence begins with this byte
  unsigned second_min; // bounds of the second byte; all later ones are 80..BF
  unsigned second_max;
};

lead lead_of(unsigned char byte) noexcept {
  if (byte < 0x80)
    return {1, 0, 0};
  if (byte < 0xC2)
    return {0, 0, 0};
  if (byte < 0xE0)
    return {2, 0x80, 0xBF};
  if (byte < 0xF0)
    return {3, byte == 0xE0 ? 0xA0U : 0x80U, byte == 0xED ? 0x9FU : 0xBFU};
  if (byte < 0xF5)
    return {4, byte == 0xF0 ? 0x90U : 0x80U, byte == 0xF4 ? 0x8FU : 0xBFU};
  return {0, 0, 0};
}

} // namespace

utf8_sequence utf8_at(std::string_view bytes, std::size_t position) noexcept {
  using state = utf8_sequence::state;
  const lead first = lead_of(static_cast<unsigned char>(bytes[position]));
  if (first.length == 0)
    return {state::invalid, 1};
  for (std::size_t i = 1; i < first.length; ++i) {
    if (position + i == bytes.size())
      return {state::incomplete, i};
    const auto byte = static_cast<unsigned char>(bytes[position + i]);
    const unsigned low = i == 1 ? first.second_min : 0x80U;
    const unsigned high = i == 1 ? first.second_max : 0xBFU;
    if (byte < low || byte > high)
      return {state::invalid, i};
  }
  return {state::valid, first.length};
}

std::size_t utf8_characters(std::string_view bytes) noexcept {
  return static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; // not a continuation byte
  }));
}

std::size_t utf8_valid_prefix(std::string_view bytes) noexcept {
  constexpr std::uint64_t high_bits = 0x8080808080808080ULL;
  std::size_t at = 0;
  while (at < bytes.size()) {
    std::uint64_t word = 0;
    if (bytes.size() - at >= sizeof(word)) { // eight ASCII characters at once
      std::memcpy(&word, bytes.data() + at, sizeof(word));
      if ((word & high_bits) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const utf8_sequence next = utf8_at(bytes, at);
    if (next.is != utf8_sequence::state::valid)
      break;
    at += next.length;
  }
  return at;
}

} // namespace baton::text
