// Stop strings in a streamed text.
#include "runtime/text/stream/stop_matcher.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace baton;
using namespace baton::text;

namespace {

struct outcome {
  std::string text;
  std::optional<std::size_t> stop;
  friend bool operator==(const outcome&, const outcome&) = default;
};

outcome run_matcher(const std::vector<std::string>& stops, bool include, std::string_view text,
                    std::size_t part) {
  auto matcher = stop_matcher::create(stops, include).value();
  outcome got;
  for (std::size_t at = 0; at < text.size() && !got.stop; at += part)
    got.stop = matcher.push(text.substr(at, part), got.text);
  matcher.finish(got.text);
  return got;
}

// By definition: the first end of any stop string; of several at that position, the longest.
outcome by_definition(const std::vector<std::string>& stops, bool include,
                      const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < stops.size(); ++i)
      if (end >= stops[i].size() &&
          text.compare(end - stops[i].size(), stops[i].size(), stops[i]) == 0)
        if (!best || stops[i].size() > stops[*best].size())
          best = i;
    if (best)
      return {text.substr(0, include ? end : end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

} // namespace

TEST_CASE("text up to the stop string is sent, however it is split") {
  struct row {
    std::vector<std::string> stops;
    std::string text;
    std::string sent;
    std::optional<std::size_t> stop;
  };
  const row rows[] = {
      {{"END"}, "one END two", "one ", 0},
      {{"END"}, "one EN two", "one EN two", {}},
      {{"END"}, "ENEND", "EN", 0},
      {{"aab"}, "aaab", "a", 0},
      {{"b", "abc"}, "abc", "a", 0},   // "b" is complete first
      {{"bc", "abc"}, "xabc", "x", 1}, // both end here: the longer
      {{"\n\n"}, "a\nb\n\nc", "a\nb", 0},
      {{"é"}, "caf\xC3\xA9!", "caf", 0},
      {{"x"}, "", "", {}},
      {{}, "anything", "anything", {}},
  };
  for (const row& expected : rows)
    for (std::size_t part = 1; part <= 12; ++part) {
      CAPTURE(expected.text);
      CAPTURE(part);
      CHECK(run_matcher(expected.stops, false, expected.text, part) ==
            outcome{expected.sent, expected.stop});
    }
}

TEST_CASE("random stop strings are found where the definition says") {
  std::mt19937 random(3);
  const auto word = [&](std::size_t longest) {
    std::string made(1 + random() % longest, ' ');
    for (char& letter : made)
      letter = static_cast<char>('a' + random() % 2);
    return made;
  };
  int hits = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops)
      stop = word(7);
    const std::string text = word(30);
    const bool include = random() % 2 == 0;
    // Among equal stop strings the first counts.
    std::vector<std::string> distinct;
    for (const std::string& stop : stops)
      if (std::find(distinct.begin(), distinct.end(), stop) == distinct.end())
        distinct.push_back(stop);
    const outcome expected = by_definition(distinct, include, text);
    CHECK(run_matcher(distinct, include, text, 1 + random() % 5) == expected);
    hits += expected.stop ? 1 : 0;
  }
  CHECK(hits > 500);
  CHECK(hits < 2900);
}

TEST_CASE("a possible beginning of a stop string is held back, and nothing more") {
  auto matcher = stop_matcher::create({"</end>", "<x"}, false).value();
  std::string sent;
  matcher.push("a<", sent);
  CHECK(sent == "a");
  CHECK(matcher.held_bytes() == 1);
  matcher.push("/en", sent);
  CHECK(sent == "a");
  matcher.push("<", sent); // "</en" is free, "<" may begin another
  CHECK(sent == "a</en");
  matcher.push("y", sent);
  CHECK(sent == "a</en<y");
  CHECK(matcher.held_bytes() == 0);
}

TEST_CASE("a stop string that may not end yet is text; one that only begins there still counts") {
  struct row {
    std::vector<std::string> stops;
    std::string early; // where none may end yet
    std::string late;
    std::string sent;
    std::optional<std::size_t> stop;
  };
  const row rows[] = {
      {{"END"}, "an END, ", "more", "an END, more", {}},
      {{"END"}, "an END, ", "an END", "an END, an ", 0},
      {{"END"}, "an EN", "D", "an ", 0}, // it ends late
      {{"aa"}, "aa", "a", "a", 0},       // so does the one that overlaps the first
      {{"abab"}, "abab", "ab", "ab", 0},
      {{"b", "abc"}, "ab", "c", "", 1},
      {{"P"}, "PPP", "", "PPP", {}},
  };
  for (const row& expected : rows)
    for (std::size_t part = 1; part <= 8; ++part) {
      CAPTURE(expected.early);
      auto matcher = stop_matcher::create(expected.stops, false).value();
      outcome got;
      for (std::size_t at = 0; at < expected.early.size(); at += part)
        CHECK(!matcher.push(std::string_view(expected.early).substr(at, part), got.text, false));
      for (std::size_t at = 0; at < expected.late.size() && !got.stop; at += part)
        got.stop = matcher.push(std::string_view(expected.late).substr(at, part), got.text);
      matcher.finish(got.text);
      CHECK(got == outcome{expected.sent, expected.stop});
    }
}

TEST_CASE("nothing is read or sent after a hit") {
  auto matcher = stop_matcher::create({"."}, true).value();
  std::string sent;
  CHECK(matcher.push("a.b", sent) == std::optional<std::size_t>{0});
  CHECK(matcher.push("c", sent) == std::optional<std::size_t>{0});
  matcher.finish(sent);
  CHECK(sent == "a.");
  CHECK(matcher.hit() == std::optional<std::size_t>{0});
}

TEST_CASE("stop strings that cannot be matched are rejected") {
  const std::vector<std::vector<std::string>> wrong = {
      {""},     {"ok", ""},  {std::string(stop_bytes_max + 1, 'a')},
      {"\xFF"}, {"caf\xC3"}, std::vector<std::string>(stop_strings_max + 1, "a"),
  };
  for (const auto& stops : wrong) {
    const auto matcher = stop_matcher::create(stops, false);
    REQUIRE(!matcher);
    CHECK(matcher.error().code == errc::invalid_value);
    CHECK(matcher.error().param == "stop");
  }
  CHECK(stop_matcher::create({std::string(stop_bytes_max, 'a')}, false).has_value());
}
