// A character map from a file: its replacements, and hostile files.
#include "runtime/text/unicode/character_map.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::text;

namespace {

std::string sound_table() {
  for (const auto& model : goldens::sentencepiece_golden()["models"])
    if (!model["character_map"].get<std::string>().empty())
      return goldens::from_hex(model["character_map"].get<std::string>());
  return {};
}

} // namespace

TEST_CASE("a character map gives the replacement of the longest match") {
  const auto map = character_map::create(sound_table());
  REQUIRE(map.has_value());
  const auto found = [&](std::string_view text) {
    const auto match = map->find(text);
    return match ? std::pair(std::string(match->replacement), match->length)
                 : std::pair(std::string("none"), std::size_t{0});
  };
  CHECK(found("\uFB01x") == std::pair(std::string("fi"), std::size_t{3}));
  CHECK(found("e\u0301") == std::pair(std::string("\u00e9"), std::size_t{3}));
  CHECK(found("\r\n") == std::pair(std::string(), std::size_t{1}));
  CHECK(found("ex").second == 0);
  CHECK(found("\uFB02").second == 0);
  CHECK(found("").second == 0);
  CHECK(character_map::create("").value().empty());
}

TEST_CASE("a malformed character map is rejected") {
  const std::string table = sound_table();
  REQUIRE(table.size() > 100);
  const std::string endless = table.substr(0, table.size() - 1) + "x";
  const std::string wide = table + std::string(1000, 'x') + std::string(1, '\0');
  for (const std::string& wrong :
       {table.substr(0, 3), table.substr(0, 4), table.substr(0, 100), std::string(8, '\xFF'),
        std::string(4, '\0') + "x", endless, wide, std::string("\x05\0\0\0", 4) + table}) {
    const auto made = character_map::create(wrong);
    REQUIRE(!made);
    CHECK(made.error().code == errc::bad_model_file);
    CHECK(made.error().message.find("precompiled_charsmap") != std::string::npos);
  }
}

TEST_CASE("no damage to a character map causes a read outside it") {
  const std::string table = sound_table();
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = table;
    for (int i = 0; i < 40; ++i)
      damaged[4 + random() % (damaged.size() - 5)] = static_cast<char>(random() & 0xFFU);
    const auto map = character_map::create(damaged);
    if (!map)
      continue;
    const std::string text = goldens::random_bytes(random, 200);
    for (std::size_t at = 0; at < text.size(); ++at)
      if (const auto match = map->find(std::string_view(text).substr(at))) {
        CHECK(match->length >= 1);
        CHECK(match->length <= text.size() - at);
        CHECK(match->replacement.size() <= damaged.size());
      }
  }
}
