// Scored merges, compared with the simplest loop: among adjacent symbols whose joined text is a
// token, merge those of the highest score, the leftmost of equals.
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace baton;
using namespace baton::text;

namespace {

vocabulary words_of(const std::vector<std::pair<std::string, float>>& pieces) {
  vocabulary words;
  words.model = "llama";
  words.add_space_prefix = false;
  words.tokens = {"<unk>"};
  words.kinds = {token_kind::unknown};
  words.scores = {0};
  words.unknown = 0;
  for (const auto& [text, score] : pieces) {
    words.tokens.push_back(text);
    words.kinds.push_back(token_kind::normal);
    words.scores.push_back(score);
  }
  return words;
}

std::vector<token_id> merged_by_scores(const vocabulary& words, std::string_view text) {
  std::map<std::string, token_id> ids;
  for (std::size_t id = 1; id < words.tokens.size(); ++id)
    ids.emplace(words.tokens[id], static_cast<token_id>(id));
  std::vector<std::string> symbols;
  for (const char letter : text)
    symbols.emplace_back(letter == ' ' ? std::string("\u2581") : std::string(1, letter));
  while (true) {
    std::size_t best = symbols.size();
    double score = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ids.find(symbols[i] + symbols[i + 1]);
      if (found == ids.end())
        continue;
      const double here = words.scores[static_cast<std::size_t>(found->second)];
      if (best == symbols.size() || here > score) {
        best = i;
        score = here;
      }
    }
    if (best == symbols.size())
      break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<token_id> made;
  for (const std::string& symbol : symbols) {
    const auto found = ids.find(symbol);
    const token_id id = found == ids.end() ? 0 : found->second;
    if (id != 0 || made.empty() || made.back() != 0) // adjacent unknown tokens become one
      made.push_back(id);
  }
  return made;
}

} // namespace

TEST_CASE("random scores, including ties, merge as in the simple loop") {
  std::mt19937 random(21);
  for (int round = 0; round < 150; ++round) {
    std::map<std::string, float> pieces;
    const auto letter = [&] {
      return std::string(random() % 5 == 0 ? "\u2581" : std::string(1, "abc"[random() % 3]));
    };
    for (int i = 0; i < 3 + round % 30; ++i) {
      std::string text;
      for (std::size_t n = 1 + random() % 4; n > 0; --n)
        text += letter();
      pieces.emplace(text, -static_cast<float>(random() % 12));
    }
    const vocabulary words = words_of({pieces.begin(), pieces.end()});
    const auto made = tokenizer::create(words);
    REQUIRE(made.has_value());
    for (const std::size_t length : {1, 2, 3, 7, 20, 90}) {
      std::string text(length, ' ');
      for (char& byte : text)
        byte = " abc"[random() % 4];
      CAPTURE(text);
      CHECK(made->encode_text(text).value() == merged_by_scores(words, text));
    }
  }
}

TEST_CASE("a character that is no token still merges into one") {
  const auto made = tokenizer::create(words_of({{"a", -2}, {"ab", -1}, {"abb", -3}})).value();
  CHECK(made.encode_text("ab").value() == std::vector<token_id>{2});
  CHECK(made.encode_text("abb").value() == std::vector<token_id>{3});
  CHECK(made.encode_text("b").value() == std::vector<token_id>{0});
  CHECK(made.encode_text("bbab").value() == std::vector<token_id>{0, 2});
}

TEST_CASE("of two tokens with the same text the first is used") {
  const auto made = tokenizer::create(words_of({{"a", -1}, {"aa", -2}, {"aa", -1}})).value();
  CHECK(made.encode_text("aa").value() == std::vector<token_id>{2});
}
