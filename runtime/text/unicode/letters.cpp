#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/unicode/letters.hpp"

#include "schema/ensure.hpp"

#include <pcre2.h>

#include <string>

namespace baton::text {

namespace {

constexpr std::uint32_t surrogates_begin = 0xD800;
constexpr std::uint32_t surrogates_end = 0xE000;

void append_utf8(std::string& text, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
    return;
  }
  if (c < 0x800) {
    put(0xC0U | c >> 6U);
  } else {
    if (c < 0x10000) {
      put(0xE0U | c >> 12U);
    } else {
      put(0xF0U | c >> 18U);
      put(0x80U | (c >> 12U & 0x3FU));
    }
    put(0x80U | (c >> 6U & 0x3FU));
  }
  put(0x80U | (c & 0x3FU));
}

struct decoded_character {
  std::uint32_t value;
  std::size_t length;
};

// Decodes a character that is not ASCII.
decoded_character long_character(const char* at) noexcept {
  const auto byte = [at](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i]));
  };
  if (byte(0) < 0xE0)
    return {(byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU), 2};
  if (byte(0) < 0xF0)
    return {(byte(0) & 0xFU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU), 3};
  return {(byte(0) & 0x7U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U |
              (byte(3) & 0x3FU),
          4};
}

bool is_ascii_letter(char c) noexcept {
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z';
}

} // namespace

const letters& letters::get() {
  static const letters made;
  return made;
}

// Builds one text of all characters; the engine finds the letters in it.
letters::letters() : bits_(code_points / 64) {
  std::string all;
  std::vector<std::uint32_t> at; // by byte of `all`: the character that begins there
  for (std::uint32_t c = 0; c < code_points; ++c) {
    if (c >= surrogates_begin && c < surrogates_end)
      continue;
    append_utf8(all, c);
    at.resize(all.size(), c);
  }
  int number = 0;
  PCRE2_SIZE offset = 0;
  auto* const pattern =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(R"(\p{L}+)"), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP, &number, &offset, nullptr);
  ENSURE(pattern != nullptr, "PCRE2 knows no letters: error {}", number);
  pcre2_jit_compile(pattern, PCRE2_JIT_COMPLETE); // interpreted without a JIT
  auto* const data = pcre2_match_data_create_from_pattern(pattern, nullptr);
  ENSURE(data != nullptr, "no memory for a match");
  for (std::size_t done = 0;;) {
    const int matched = pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(),
                                    done, PCRE2_NO_UTF_CHECK, data, nullptr);
    if (matched == PCRE2_ERROR_NOMATCH)
      break;
    ENSURE(matched > 0, "PCRE2 cannot look for letters: error {}", matched);
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data);
    for (done = found[0]; done < found[1]; ++done)
      bits_[at[done] / 64] |= std::uint64_t{1} << at[done] % 64;
  }
  pcre2_match_data_free(data);
  pcre2_code_free(pattern);
}

std::size_t end_of_word(const letters& known, std::string_view text, std::size_t begin) noexcept {
  const std::size_t first = begin + (text[begin] == ' ' ? 1 : 0);
  std::size_t end = first;
  while (end < text.size()) {
    if (static_cast<unsigned char>(text[end]) < 0x80) {
      if (!is_ascii_letter(text[end]))
        break;
      ++end;
      continue;
    }
    const auto c = long_character(text.data() + end);
    if (c.value >= letters::code_points || !known.holds(c.value))
      return begin;
    end += c.length;
  }
  return end > first ? end : begin;
}

} // namespace baton::text
