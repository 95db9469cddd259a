// The table of letters, and the word ends that follow from it.
#include "runtime/text/unicode/letters.hpp"

#include <doctest/doctest.h>

#include <string_view>

using namespace baton::text;

namespace {

std::size_t end_of(std::string_view text, std::size_t begin = 0) {
  return end_of_word(letters::get(), text, begin);
}

struct range {
  std::uint32_t first;
  std::uint32_t last;
};

} // namespace

TEST_CASE("letters match Unicode, in every plane that has some") {
  const auto& known = letters::get();
  for (const range r : {range{'A', 'Z'}, range{'a', 'z'}, range{0x3B1, 0x3C9}, range{0x430, 0x44F},
                        range{0x5D0, 0x5EA}, range{0x915, 0x939}, range{0xE01, 0xE2E},
                        range{0x3041, 0x3096}, range{0x4E00, 0x9FA5}, range{0xAC00, 0xD7A3},
                        range{0x10400, 0x1044F}, range{0x20000, 0x2A6D6}, range{0x30000, 0x3134A}})
    for (std::uint32_t c = r.first; c <= r.last; ++c) {
      CAPTURE(c);
      REQUIRE(known.holds(c));
    }
  for (const range r :
       {range{0, '@'}, range{'[', '`'}, range{0x300, 0x36F}, range{0x660, 0x669},
        range{0x966, 0x96F}, range{0x2000, 0x206F}, range{0x2190, 0x23FF}, range{0x3001, 0x3003},
        range{0xD800, 0xDFFF}, range{0x1F600, 0x1F64F}, range{0x3FFF0, 0x3FFFF}})
    for (std::uint32_t c = r.first; c <= r.last; ++c) {
      CAPTURE(c);
      REQUIRE_FALSE(known.holds(c));
    }
}

TEST_CASE("a word is at most one space and letters of any alphabet") {
  CHECK(end_of("ab c") == 2);
  CHECK(end_of(" ab c") == 3);
  CHECK(end_of("\xCE\xB1\xCE\xB2 x") == 4);                       // Greek
  CHECK(end_of(" a\xD0\xB6\xE4\xB8\x80\xF0\xA0\x80\x80!") == 11); // of two, three and four bytes
  CHECK(end_of("x \xCE\xB1", 1) == 4);
  CHECK(end_of("  a") == 0);
  CHECK(end_of(" ") == 0);
  CHECK(end_of("1a") == 0);
  CHECK(end_of("\xF0\x9F\x98\x80") == 0); // a picture
}

TEST_CASE("a word followed by a non-ASCII character is left to the pattern") {
  CHECK(end_of("e\xCC\x81") == 0);          // a mark
  CHECK(end_of("a\xC2\xA0") == 0);          // a space, but the table does not decide it
  CHECK(end_of("a\xF3\xA0\x80\xA0-") == 0); // beyond the table
  CHECK(end_of("a-") == 1);
}
