// The map between bytes and characters: printable Latin-1 bytes map to themselves, the 68 others to
// U+0100 and up, in order.
#include "runtime/text/unicode/byte_alphabet.hpp"

#include "runtime/text/unicode/utf8.hpp"

#include <array>
#include <cstdint>

namespace baton::text {

namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr unsigned first_substitute = 0x100;
constexpr unsigned code_points = 0x144; // U+0000 .. U+0143

struct byte_alphabet {
  std::array<std::uint16_t, 256> code_point{};
  std::array<std::int16_t, code_points> byte{}; // -1: the character represents no byte
};

constexpr byte_alphabet make_alphabet() {
  byte_alphabet made;
  for (auto& byte : made.byte)
    byte = -1;
  unsigned substitute = first_substitute;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned code = stands_for_itself(byte) ? byte : substitute++;
    made.code_point[byte] = static_cast<std::uint16_t>(code);
    made.byte[code] = static_cast<std::int16_t>(byte);
  }
  return made;
}

constexpr byte_alphabet gpt2_alphabet = make_alphabet();

} // namespace

std::optional<std::string> bytes_of_alphabet_text(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const utf8_sequence next = utf8_at(text, at);
    if (next.is != utf8_sequence::state::valid || next.length > 2)
      return std::nullopt; // all characters of the alphabet have one or two bytes
    auto code = static_cast<unsigned>(static_cast<unsigned char>(text[at]));
    if (next.length == 2)
      code = ((code & 0x1FU) << 6U) | (static_cast<unsigned char>(text[at + 1]) & 0x3FU);
    if (code >= code_points || gpt2_alphabet.byte[code] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(gpt2_alphabet.byte[code]));
    at += next.length;
  }
  return bytes;
}

std::string alphabet_text_of(unsigned char byte) {
  const unsigned code = gpt2_alphabet.code_point[byte];
  if (code < 0x80)
    return {static_cast<char>(code)};
  return {static_cast<char>(0xC0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3FU))};
}

} // namespace baton::text
