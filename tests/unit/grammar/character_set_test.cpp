// Sets of characters, and their UTF-8 against an encoder for every Unicode character.
#include "runtime/grammar/automata/character_set.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton::grammar;

namespace {

bool holds(const byte_pattern& p, const std::string& bytes) {
  if (bytes.size() != p.size)
    return false;
  for (std::size_t i = 0; i < p.size; ++i)
    if (static_cast<std::uint8_t>(bytes[i]) < p.bytes[i].first ||
        static_cast<std::uint8_t>(bytes[i]) > p.bytes[i].last)
      return false;
  return true;
}

} // namespace

TEST_CASE("adjacent ranges merge; surrogates are never included") {
  character_set set{{'a', 'c'}, {'x', 'z'}};
  set.add('d', 'f');
  CHECK(set.ranges() == std::vector<character_range>{{'a', 'f'}, {'x', 'z'}});
  set.add('b', 'y');
  CHECK(set.ranges() == std::vector<character_range>{{'a', 'z'}});
  CHECK(character_set::all().ranges() ==
        std::vector<character_range>{{0, 0xD7FF}, {0xE000, 0x10FFFF}});
  CHECK(character_set::all().inverted().is_empty());
  CHECK(set.inverted().inverted().ranges() == set.ranges());
  CHECK(set.without({{'m', 'm'}}).ranges() == std::vector<character_range>{{'a', 'l'}, {'n', 'z'}});
  CHECK(set.within({{'0', 'b'}, {'y', '~'}}).ranges() ==
        std::vector<character_range>{{'a', 'b'}, {'y', 'z'}});
}

TEST_CASE("the patterns of a set match the UTF-8 of its characters and nothing else") {
  for (const auto& set :
       {character_set::all(), character_set{{'\n', '\n'}, {0x7F, 0x801}, {0xFFFE, 0x10003}},
        character_set{{0x3A9, 0x1F600}}, character_set{{0xD000, 0xE123}, {0x40001, 0x10FFFE}}}) {
    const auto patterns = utf8_patterns(set);
    std::size_t wrong = 0;
    for (char32_t c = 0; c <= character_max; c += c < 0x900 || (c & 0xFFF) < 2 ? 1 : 37) {
      if (c >= 0xD800 && c <= 0xDFFF)
        continue;
      const auto bytes = utf8_of(c);
      const auto held = std::count_if(patterns.begin(), patterns.end(),
                                      [&](const auto& p) { return holds(p, bytes); });
      wrong += held == (set.contains(c) ? 1 : 0) ? 0 : 1;
      std::size_t at = 0;
      wrong += next_character(bytes, at) == c && at == bytes.size() ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}
