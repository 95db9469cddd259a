// The prefix tree, compared with a plain search.
#include "runtime/text/bpe/piece_trie.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace baton;
using namespace baton::text;

TEST_CASE("the longest entry is found, and only complete ones") {
  const piece_trie trie({{"a", 1}, {"abc", 2}, {"\xFF\x01", 3}, {"\x7F", 4}, {"abc", 5}});
  const auto longest = [&](std::string_view text) {
    const auto found = trie.longest(text);
    return found ? std::pair(found->id, found->length) : std::pair(token_id{-1}, std::size_t{0});
  };
  CHECK(longest("abcd") == std::pair(token_id{2}, std::size_t{3})); // the first of two
  CHECK(longest("abd") == std::pair(token_id{1}, std::size_t{1}));
  CHECK(longest("\xFF\x01\x01") == std::pair(token_id{3}, std::size_t{2}));
  CHECK(longest("\x7F") == std::pair(token_id{4}, std::size_t{1}));
  CHECK(longest("\xFF").second == 0);
  CHECK(longest("b").second == 0);
  CHECK(longest("").second == 0);
  CHECK(trie.find("a") == 1);
  CHECK(!trie.find("ab"));
  CHECK(!trie.find("abcd"));
  CHECK(!piece_trie({}).longest("a"));
}

TEST_CASE("random entries are found as by a plain search") {
  std::mt19937 random(3);
  const auto word = [&](std::size_t longest) {
    std::string text(1 + random() % longest, ' ');
    for (char& byte : text)
      byte = static_cast<char>(0x7E + random() % 4);
    return text;
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<piece_trie::entry> entries;
    for (token_id id = 0; id < 40; ++id)
      entries.push_back({word(6), id});
    const piece_trie trie(entries);
    for (int i = 0; i < 50; ++i) {
      const std::string text = word(10);
      const piece_trie::entry* best = nullptr;
      for (const auto& entry : entries)
        if (text.starts_with(entry.text) && (!best || entry.text.size() > best->text.size()))
          best = &entry;
      const auto found = trie.longest(text);
      REQUIRE(found.has_value() == (best != nullptr));
      if (best)
        CHECK(found->id == best->id);
    }
  }
}
