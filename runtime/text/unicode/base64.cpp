// Converts four characters to three bytes, and back; see base64.hpp.
#include "runtime/text/unicode/base64.hpp"

#include <cstdint>

namespace baton::text {
namespace {

constexpr std::string_view base64_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

} // namespace

std::optional<std::string> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding)
    text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0; // the lowest `count` bits are not written yet
  unsigned count = 0;
  for (const char c : text) {
    const std::size_t value = base64_alphabet.find(c);
    if (value == std::string_view::npos)
      return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8)
      continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 0xFFU);
  }
  return bytes;
}

std::string base64_of(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const auto three = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = (bits << 8U) | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= three.size() ? base64_alphabet[(bits >> (18 - 6 * i)) & 63U] : '=';
  }
  return text;
}

} // namespace baton::text
