// Regular expressions: their matches, and errors by name.
#include "tests/unit/grammar/grammar_walk.hpp"

#include <regex>

using namespace baton;
using baton::test::matches;
using baton::test::refusal_of;

namespace {

constraint regex(std::string pattern) {
  return {constraint_kind::regex, std::move(pattern)};
}

struct regex_row {
  const char* pattern;
  std::vector<const char*> matching;
  std::vector<const char*> others;
};

} // namespace

TEST_CASE("regular expressions match whole texts") {
  const regex_row rows[] = {
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^abc$", {"abc"}, {"ab", "abcd"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"(a|b)*c", {"c", "abbac"}, {"ab", "abd"}},
      {"a{2,3}b{2}c{1,}", {"aabbc", "aaabbccc"}, {"abbc", "aaaabbc", "aabc", "aabb"}},
      {"a{,2}", {"a{,2}"}, {"", "aa"}},
      {"x{}", {"x{}"}, {"x"}},
      {"(?:ab)+?", {"ab", "abab"}, {"", "aba"}},
      {"(?<year>\\d{4})-(?P<m>\\d\\d)", {"2024-05"}, {"24-05", "2024-5"}},
      {"[a-c\\d_-]+", {"a-1_b"}, {"d", ""}},
      {"[^a-c]", {"d", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80"}, {"a", "", "\xc3", "dd"}},
      {".", {"a", "\xe4\xb8\xad"}, {"\n", "\xe4\xb8", "\r", "\xe2\x80\xa8"}},
      {"\\w+\\s\\W", {"ab \xc3\xa9", "a\t-"}, {"ab  c", "\xc3\xa9 -"}},
      {"\\D\\S", {"ab"}, {"1b", "a "}},
      {"\\x41\\u00e9\\u{1F600}\\n\\t\\.", {"A\xc3\xa9\xf0\x9f\x98\x80\n\t."}, {"A"}},
      {"[\\]\\-a]", {"]", "-", "a"}, {"\\", "b"}},
      {"[a-]", {"a", "-"}, {"b"}},
      {"a\\/b", {"a/b"}, {"a\\/b"}},
      {"(((a)))", {"a"}, {""}},
      {"\xc3\xa9+", {"\xc3\xa9", "\xc3\xa9\xc3\xa9"}, {"\xc3", "\xa9"}},
  };
  for (const auto& [pattern, matching, others] : rows) {
    CAPTURE(pattern);
    auto of = test::automaton_of(regex(pattern));
    for (const auto* text : matching)
      CHECK_MESSAGE(matches(of, text), text);
    for (const auto* text : others)
      CHECK_MESSAGE(!matches(of, text), text);
  }
}

TEST_CASE("random expressions match as in the standard library") {
  std::mt19937 random(7);
  // Without nested repetitions: the oracle would try all ways to split a text.
  const auto make = [&](auto& self, int depth, bool may_repeat) -> std::string {
    switch (random() % (depth > 3 ? 3 : 7)) {
    case 0:
      return std::string(1, "abc"[random() % 3]);
    case 1:
      return random() % 2 ? "[ab]" : "[^a]";
    case 2:
      return random() % 2 ? "." : "b";
    case 3:
      return "(" + self(self, depth + 1, may_repeat) + "|" + self(self, depth + 1, may_repeat) +
             ")";
    case 4:
      if (may_repeat)
        return "(?:" + self(self, depth + 1, false) + ")" +
               std::array{"*", "+", "?", "{2}", "{1,3}", "{2,}"}[random() % 6];
      [[fallthrough]];
    default:
      return self(self, depth + 1, may_repeat) + self(self, depth + 1, may_repeat);
    }
  };
  std::size_t matched = 0;
  for (int i = 0; i < 400; ++i) {
    const auto pattern = make(make, 0, true);
    CAPTURE(pattern);
    const std::regex oracle(pattern);
    auto of = test::automaton_of(regex(pattern));
    for (int j = 0; j < 30; ++j) {
      std::string text;
      for (std::size_t n = random() % 7; n > 0; --n)
        text += "abcd"[random() % 4];
      CAPTURE(text);
      const bool is_match = std::regex_match(text, oracle);
      matched += is_match ? 1 : 0;
      CHECK(matches(of, text) == is_match);
    }
  }
  CHECK(matched > 500);
}

TEST_CASE("unsupported syntax is rejected by name") {
  const std::pair<const char*, const char*> rows[] = {
      {"(?=a)", "look-around"},
      {"(?!a)b", "look-around"},
      {"(?<=a)b", "look-around"},
      {"(?<!a)b", "look-around"},
      {"(a)\\1", "back-reference"},
      {"\\k<a>", "back-reference"},
      {"\\bword", "word border"},
      {"\\p{L}", "Unicode property"},
      {"(?i)abc", "(?"},
      {"a^b", "'^'"},
      {"a$b", "'$'"},
      {"(a$)", "'$'"},
      {"[[:alpha:]]", "named class"},
      {"[]a]", "begins with ']'"},
      {"a**", "repetition of a repetition"},
  };
  for (const auto& [pattern, what] : rows) {
    CAPTURE(pattern);
    const auto e = refusal_of(regex(pattern));
    CHECK(e.code == errc::unsupported_parameter);
    CHECK_MESSAGE(e.message.find(what) != std::string::npos, e.message);
  }
  for (const char* pattern :
       {"(a", "a)", "[a", "*a", "a{3,2}", "a{99999}", "\\", "\\q", "[b-a]", "\\u12", "\\xg1", "",
        "\xff", "[a-", "(?<a", "\\ud800", "[^\\x00-\\u{10FFFF}]"}) {
    CAPTURE(pattern);
    CHECK(refusal_of(regex(pattern)).code == errc::invalid_value);
  }
  CHECK(refusal_of(regex(std::string(70'000, 'a'))).message.find("70000") != std::string::npos);
  CHECK(refusal_of(regex(std::string(100, '(') + std::string(100, ')'))).code ==
        errc::invalid_value);
}

TEST_CASE("a hostile expression is rejected quickly") {
  std::string nested = "a";
  for (int i = 0; i < 20; ++i)
    nested = "(" + nested + "{1000})";
  // Twenty levels of calls are twenty thousand states.
  CHECK(grammar::compile(regex(nested)).has_value());
  std::string wide;
  for (int i = 0; i < 5; ++i)
    wide += "(a{60000}|b)";
  CHECK(refusal_of(regex(wide)).code == errc::invalid_value);
}
