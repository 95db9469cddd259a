// Leftmost, longest, and only where allowed.
#include "runtime/text/tokenizer/special_tokens.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::text;

namespace {

special_tokens tokens() {
  return special_tokens({{"<a>", 1, false},
                         {"<a>b", 2, false},
                         {"<c>", 3, false},
                         {"    ", 4, true},
                         {"  ", 5, true}});
}

struct hit {
  std::uint32_t begin;
  token_id id;
  friend bool operator==(const hit&, const hit&) = default;
};

std::vector<hit> all(std::string_view text, const std::vector<text_range>& trusted) {
  const special_tokens specials = tokens();
  std::vector<hit> hits;
  std::size_t at = 0;
  while (const auto found = specials.find(text, at, trusted)) {
    hits.push_back({found->where.begin, found->id});
    CHECK(found->where.begin >= at);
    at = found->where.end;
  }
  return hits;
}

} // namespace

TEST_CASE("special tokens are found leftmost first, then longest") {
  CHECK(all("x<a>b<a>c<c>", {{0, 12}}) == std::vector<hit>{{1, 2}, {5, 1}, {9, 3}});
  CHECK(all("<<a>", {{0, 4}}) == std::vector<hit>{{1, 1}});
  CHECK(all("<a", {{0, 2}}).empty());
  CHECK(all("", {}).empty());
}

TEST_CASE("special tokens are found only whole within a trusted range") {
  CHECK(all("<a>", {}).empty());
  CHECK(all("<a>b", {{0, 3}}) == std::vector<hit>{{0, 1}}); // the longer one leaves the range
  CHECK(all("<a>", {{0, 2}}).empty());
  CHECK(all("<a>", {{1, 3}}).empty());
  CHECK(all("<a><c><a>", {{3, 6}}) == std::vector<hit>{{3, 3}});
  CHECK(all("<a><c><a>", {{0, 3}, {6, 9}}) == std::vector<hit>{{0, 1}, {6, 1}});
}

TEST_CASE("runs of white space are found in any text") {
  CHECK(all("a      <a>", {}) == std::vector<hit>{{1, 4}, {5, 5}});
  CHECK(all("a  <a>  ", {{3, 6}}) == std::vector<hit>{{1, 5}, {3, 1}, {6, 5}});
}

TEST_CASE("prefixes of hundreds of special tokens cost no comparison with each") {
  std::vector<special_token> many;
  for (token_id i = 0; i < 1000; ++i)
    many.push_back({"<|reserved_" + std::to_string(i) + "|>", i, false});
  const special_tokens specials(std::move(many));
  std::string text;
  for (int i = 0; i < 100'000; ++i)
    text += "<|reserved_";
  const auto size = static_cast<std::uint32_t>(text.size() + 14);
  const text_range whole[] = {{0, size}};
  const auto found = specials.find(text + "<|reserved_77|", 0, whole);
  CHECK(!found);
  const auto last = specials.find(text + "<|reserved_7|>", 0, whole);
  REQUIRE(last);
  CHECK(last->id == 7);
}

TEST_CASE("without special tokens nothing is found") {
  CHECK(!special_tokens({}).find("<a>  ", 0, std::vector<text_range>{{0, 5}}).has_value());
}
