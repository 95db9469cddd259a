// The direct-mapped cache of pieces.
#include "runtime/text/bpe/piece_cache.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace baton;
using namespace baton::text;

TEST_CASE("the cache returns what was stored and never another piece's ids") {
  piece_cache cache(8);
  for (int round = 0; round < 2; ++round)
    for (token_id i = 0; i < 200; ++i) {
      const std::string piece = "piece " + std::to_string(i);
      const auto found = cache.find(piece);
      CHECK((found.empty() || found[0] == i));
      const token_id ids[] = {i, i + 1};
      cache.put(piece, ids);
      REQUIRE(cache.find(piece).size() == 2);
      CHECK(cache.find(piece)[1] == i + 1);
    }
  cache.put("x", std::vector<token_id>{1});
  cache.clear();
  CHECK(cache.find("x").empty());
}

TEST_CASE("the cache stores pieces and ids up to its limits only") {
  piece_cache cache(4);
  const std::string longest(piece_cache::piece_bytes_max, 'a');
  cache.put(longest, std::vector<token_id>{1});
  CHECK(cache.find(longest).size() == 1);
  cache.put(longest + "a", std::vector<token_id>{1});
  CHECK(cache.find(longest + "a").empty());
  cache.put("many", std::vector<token_id>(piece_cache::ids_max, 1));
  CHECK(cache.find("many").size() == piece_cache::ids_max);
  cache.put("more", std::vector<token_id>(piece_cache::ids_max + 1, 1));
  CHECK(cache.find("more").empty());
  cache.put("none", {});
  CHECK(cache.find("none").empty());
}
