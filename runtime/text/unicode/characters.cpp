// Wraps utf8proc; see characters.hpp.
#include "runtime/text/unicode/characters.hpp"

#include <utf8proc.h>

namespace baton::text {

code_point code_point_at(std::string_view text, std::size_t at) noexcept {
  if (static_cast<unsigned char>(text[at]) < 0x80)
    return {text[at], 1};
  std::int32_t value = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &value);
  return length > 0 ? code_point{value, static_cast<std::size_t>(length)} : code_point{-1, 1};
}

bool is_white_space(code_point character) noexcept {
  const std::int32_t c = character.value;
  return (c >= 0x9 && c <= 0xD) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::size_t cluster_bytes(std::string_view text) noexcept {
  code_point last = code_point_at(text, 0);
  std::size_t at = last.length;
  utf8proc_int32_t state = 0;
  while (last.value >= 0 && at < text.size()) {
    const code_point next = code_point_at(text, at);
    if (next.value < 0 || utf8proc_grapheme_break_stateful(last.value, next.value, &state))
      break;
    at += next.length;
    last = next;
  }
  return at;
}

} // namespace baton::text
