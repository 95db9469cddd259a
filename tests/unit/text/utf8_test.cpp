// Complete characters, invalid bytes, and prefixes that may still become a character.
#include "runtime/text/unicode/utf8.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace baton::text;
using state = utf8_sequence::state;

TEST_CASE("sequences are classified by Table 3-7 of the Unicode Standard") {
  struct row {
    std::string_view bytes;
    state is;
    std::size_t length;
  };
  const row rows[] = {
      {"a", state::valid, 1},
      {std::string_view("\0", 1), state::valid, 1},
      {"\x7F", state::valid, 1},
      {"\xC2\x80", state::valid, 2},
      {"\xDF\xBF", state::valid, 2},
      {"\xE0\xA0\x80", state::valid, 3},
      {"\xED\x9F\xBF", state::valid, 3},
      {"\xEE\x80\x80", state::valid, 3},
      {"\xF0\x90\x80\x80", state::valid, 4},
      {"\xF4\x8F\xBF\xBF", state::valid, 4},
      {"\x80", state::invalid, 1},         // a continuation alone
      {"\xC0\x80", state::invalid, 1},     // overlong
      {"\xC1\xBF", state::invalid, 1},     // overlong
      {"\xE0\x9F\x80", state::invalid, 1}, // overlong
      {"\xF0\x8F\x80", state::invalid, 1}, // overlong
      {"\xED\xA0\x80", state::invalid, 1}, // a surrogate
      {"\xF4\x90\x80", state::invalid, 1}, // above U+10FFFF
      {"\xF5\x80", state::invalid, 1},
      {"\xFF", state::invalid, 1},
      {"\xC3x", state::invalid, 1},
      {"\xE2\x82x", state::invalid, 2},
      {"\xF0\x9F\x98x", state::invalid, 3},
      {"\xC3", state::incomplete, 1},
      {"\xE2\x82", state::incomplete, 2},
      {"\xF0\x9F\x98", state::incomplete, 3},
      {"\xF4", state::incomplete, 1},
  };
  for (const row& expected : rows) {
    const utf8_sequence got = utf8_at(expected.bytes, 0);
    CAPTURE(std::string(expected.bytes));
    CHECK(got.is == expected.is);
    CHECK(got.length == expected.length);
  }
}

TEST_CASE("the valid prefix ends at the first byte that is not UTF-8") {
  const std::string good = "sixteen letters \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 and more";
  CHECK(utf8_valid_prefix(good) == good.size());
  CHECK(utf8_valid_prefix("") == 0);
  for (std::size_t at = 0; at <= 20; ++at) // around the steps of eight
    CHECK(utf8_valid_prefix(std::string(at, 'a') + '\xFF' + std::string(20, 'b')) == at);
  CHECK(utf8_valid_prefix("ab\xE2\x82") == 2);
}

TEST_CASE("characters are counted by the bytes that begin one") {
  CHECK(utf8_characters("") == 0);
  CHECK(utf8_characters("abc") == 3);
  CHECK(utf8_characters("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80.") == 4);
  CHECK(utf8_characters("\x80\xBF") == 0);      // the rest of one that began before
  CHECK(utf8_characters("a\xF0\x9F\x98") == 2); // the beginning of one that goes on
}
