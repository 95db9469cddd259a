// The merge loops, compared with the simplest possible one.
#include "runtime/text/bpe/merge_table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <utility>

using namespace baton;
using namespace baton::text;

namespace {

using rules = std::map<std::pair<token_id, token_id>, merge>;

// Finds the best pair, merges it, starts again.
large_vector<token_id> merged_by_rules(const rules& all, large_vector<token_id> symbols) {
  while (true) {
    std::size_t best = symbols.size();
    std::uint32_t rank = UINT32_MAX;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = all.find({symbols[i], symbols[i + 1]});
      if (found != all.end() && found->second.rank < rank) {
        best = i;
        rank = found->second.rank;
      }
    }
    if (best == symbols.size())
      return symbols;
    symbols[best] = all.at({symbols[best], symbols[best + 1]}).product;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

} // namespace

TEST_CASE("random merges give the symbols of the simple loop, short and long") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    rules all;
    token_id next = 4; // four base symbols
    for (std::uint32_t rank = 0; rank < 40; ++rank) {
      const auto left = static_cast<token_id>(random() % static_cast<unsigned>(next));
      const auto right = static_cast<token_id>(random() % static_cast<unsigned>(next));
      if (all.emplace(std::pair(left, right), merge{rank, next}).second)
        ++next;
    }
    merge_table table(all.size());
    for (const auto& [pair, what] : all)
      table.add(pair.first, pair.second, what);
    for (const std::size_t length : {0, 1, 2, 3, 10, 31, 32, 33, 34, 100, 700}) {
      large_vector<token_id> symbols(length);
      for (token_id& symbol : symbols)
        symbol = static_cast<token_id>(random() % 4);
      const auto expected = merged_by_rules(all, symbols);
      table.apply(symbols);
      CHECK(symbols == expected);
    }
  }
}

TEST_CASE("long pieces give the symbols of the simple loop, for any order of ranks") {
  // Ranks that fall with the length of the merged text, and equal ones: a pair that a merge has
  // just made may be the next.
  std::mt19937 random(11);
  for (int round = 0; round < 6; ++round) {
    rules all;
    token_id next = 3;
    for (int i = 0; i < 40; ++i) {
      const auto left = static_cast<token_id>(random() % static_cast<unsigned>(next));
      const auto right = static_cast<token_id>(random() % static_cast<unsigned>(next));
      if (all.emplace(std::pair(left, right),
                      merge{static_cast<std::uint32_t>(random() % 20), next})
              .second)
        ++next;
    }
    merge_table table(all.size());
    for (const auto& [pair, what] : all)
      table.add(pair.first, pair.second, what);
    for (const std::size_t length : {40, 1000, 4200}) {
      large_vector<token_id> symbols(length);
      for (token_id& symbol : symbols)
        symbol = static_cast<token_id>(random() % 3);
      const auto expected = merged_by_rules(all, symbols);
      table.apply(symbols);
      CHECK(symbols == expected);
    }
  }
}

TEST_CASE("among equal ranks the leftmost pair is merged first") {
  merge_table table(1);
  table.add(0, 0, {0, 1});
  for (const std::size_t length : {3, 33, 5001}) {
    large_vector<token_id> symbols(length, 0);
    table.apply(symbols);
    CHECK(symbols.size() == length / 2 + 1);
    CHECK(symbols.front() == 1);
    CHECK(symbols.back() == 0);
  }
}

TEST_CASE("the first merge of a pair counts") {
  merge_table table(2);
  table.add(0, 1, {5, 2});
  table.add(0, 1, {6, 3});
  large_vector<token_id> symbols = {0, 1};
  table.apply(symbols);
  CHECK(symbols == large_vector<token_id>{2});
}
