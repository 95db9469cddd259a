// Ids to chunks: text, tokens covered, stop strings.
#include "runtime/text/stream/stream_decoder.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::text;
using baton::text::goldens::small_tokenizer;

namespace {

stream_decoder decoder(std::vector<std::string> stops = {}, bool include = false) {
  return stream_decoder::create(small_tokenizer(),
                                {.stops = std::move(stops), .include_stop = include})
      .value();
}

// One token per byte, so that the token borders are known.
std::vector<token_id> byte_tokens(std::string_view bytes) {
  std::vector<token_id> ids;
  for (const char byte : bytes)
    ids.push_back(small_tokenizer().encode_text(std::string_view(&byte, 1)).value().at(0));
  return ids;
}

struct total {
  std::string text;
  std::uint32_t covered = 0;
  std::optional<stop_hit> stopped;
  friend bool operator==(const total&, const total&) = default;
};

total run_decoder(stream_decoder stream, std::span<const token_id> ids, std::size_t group) {
  total sum;
  const auto take = [&](decoded part) {
    CHECK(part.tokens_covered >= sum.covered);
    CHECK(utf8_valid_prefix(part.text) == part.text.size());
    sum.text += part.text;
    sum.covered = part.tokens_covered;
    sum.stopped = part.stopped;
  };
  for (std::size_t at = 0; at < ids.size(); at += group)
    take(stream.push(ids.subspan(at, std::min(group, ids.size() - at))));
  take(stream.finish());
  return sum;
}

} // namespace

TEST_CASE("covered tokens are those whose text has been sent") {
  auto stream = decoder({"xyz"});
  const auto expect = [&](std::string_view bytes, std::string_view text, std::uint32_t covered) {
    const decoded got = stream.push(byte_tokens(bytes));
    CAPTURE(std::string(bytes));
    CHECK(got.text == text);
    CHECK(got.tokens_covered == covered);
    CHECK(!got.stopped);
  };
  expect("ab", "ab", 2);
  expect("\xE2", "", 2);
  expect("\x82", "", 2);
  expect("\xAC", "\xE2\x82\xAC", 5);
  expect("x", "", 5); // may begin the stop string
  expect("y", "", 5);
  expect("\xC3", "", 5); // still undecided: "xy" and half a character
  expect("\xA9", "xy\xC3\xA9", 9);
  expect("", "", 9);
  expect("\xF0", "", 9);
  const decoded end = stream.finish();
  CHECK(end.text == "\xEF\xBF\xBD");
  CHECK(end.tokens_covered == 10);
}

TEST_CASE("a stop string across tokens ends the text and names the token that completed it") {
  for (const bool include : {false, true})
    for (std::size_t group = 1; group <= 8; ++group) {
      const total got =
          run_decoder(decoder({"?", "END"}, include), byte_tokens("a EN ENDb?"), group);
      CHECK(got == total{include ? "a EN END" : "a EN ", 8, stop_hit{1, 7}});
    }
}

TEST_CASE("a stop string ends nothing within the first tokens_min tokens, as in vLLM") {
  struct row {
    std::uint32_t min_tokens;
    std::string bytes; // one token each
    std::string text;
    std::optional<stop_hit> stopped;
  };
  const row rows[] = {
      {0, "aPbPc", "a", stop_hit{0, 1}},
      {1, "aPbPc", "a", stop_hit{0, 1}},
      {2, "aPbPc", "aPb", stop_hit{0, 3}},
      {4, "aPbPc", "aPbPc", {}},
      {5, "aPbPc", "aPbPc", {}},
      {9, "aPbPc", "aPbPc", {}},
      {3, "aXYZb", "a", stop_hit{1, 3}}, // it began before
      {4, "aXYZb", "aXYZb", {}},
      {3, "\xE2\x82\xAC.", "\xE2\x82\xAC.", {}},
      {2, "\xE2\x82\xAC.", "", stop_hit{2, 2}}, // its last byte is the third token's
  };
  for (const auto& expected : rows)
    for (std::size_t group = 1; group <= 6; ++group) {
      CAPTURE(expected.min_tokens);
      CAPTURE(expected.bytes);
      auto made = stream_decoder::create(small_tokenizer(), {.stops = {"P", "XYZ", "\xE2\x82\xAC"},
                                                             .min_tokens = expected.min_tokens})
                      .value();
      const total got = run_decoder(std::move(made), byte_tokens(expected.bytes), group);
      CHECK(got.text == expected.text);
      CHECK(got.stopped == expected.stopped);
    }
}

TEST_CASE("after a stop every result is marked stopped and nothing more is sent") {
  auto stream = decoder({"."});
  CHECK(stream.push(byte_tokens("a.")).stopped == stop_hit{0, 1});
  const decoded later = stream.push(byte_tokens("b."));
  CHECK(later.text.empty());
  CHECK(later.tokens_covered == 2);
  CHECK(later.stopped == stop_hit{0, 1});
  CHECK(stream.finish().stopped == stop_hit{0, 1});
}

TEST_CASE("a stop string may be completed by the replacement of a broken character") {
  const auto ids = byte_tokens("a\xE2\x82");
  const total got = run_decoder(decoder({"\xEF\xBF\xBD"}), ids, 1);
  CHECK(got == total{"a", 3, stop_hit{0, 2}});
}

TEST_CASE("tokens without text are covered") {
  const token_id end = small_tokenizer().special_id("<|end|>").value();
  auto stream = decoder();
  CHECK(stream.push(std::vector<token_id>{end}).tokens_covered == 1);
  auto ids = byte_tokens("\xE2");
  ids.push_back(end); // between the bytes of a character
  CHECK(stream.push(ids).tokens_covered == 1);
  const decoded whole = stream.push(byte_tokens("\x82\xAC"));
  CHECK(whole.text == "\xE2\x82\xAC");
  CHECK(whole.tokens_covered == 5);
}

TEST_CASE("the result is a function of the ids, however they are grouped") {
  std::mt19937 random(5);
  int stopped = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<token_id> ids(random() % 60);
    for (token_id& id : ids)
      id = static_cast<token_id>(random() % (small_tokenizer().size() + 2));
    const std::vector<std::string> stops = {"aa",
                                            "\xEF\xBF\xBD\xEF\xBF\xBD"
                                            "e",
                                            "\xEF\xBF\xBD "};
    const total one = run_decoder(decoder(stops), ids, 1);
    CHECK(run_decoder(decoder(stops), ids, 7) == one);
    CHECK(run_decoder(decoder(stops), ids, 1000) == one);
    CHECK(one.covered == (one.stopped ? one.stopped->token_index + 1 : ids.size()));
    stopped += one.stopped ? 1 : 0;
    const total free = run_decoder(decoder(), ids, 3);
    std::vector<token_id> known;
    for (const token_id id : ids)
      if (small_tokenizer().contains(id))
        known.push_back(id);
    CHECK(free.text == small_tokenizer().decode(known, true).value());
    CHECK(free.text.substr(0, one.text.size()) == one.text);
  }
  CHECK(stopped > 20);
}

TEST_CASE("the text up to a token is a function of the ids, and no token is split") {
  auto stream = decoder();
  const decoded first = stream.push(byte_tokens("a\xE2\x82"));
  CHECK(first.text == "a");
  CHECK(first.ends == std::vector<std::size_t>{1});
  const decoded rest = stream.push(byte_tokens("\xAC!"));
  CHECK(rest.text == "\xE2\x82\xAC!");
  CHECK(rest.ends == std::vector<std::size_t>{3, 3, 3, 4});

  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    std::vector<token_id> drawn(random() % 60);
    for (token_id& id : drawn)
      id = static_cast<token_id>(random() % (small_tokenizer().size() + 2));
    const auto ends_in = [&](std::size_t group) {
      auto made = decoder({"aa", "\xEF\xBF\xBD "}, round % 2 == 0);
      std::vector<std::size_t> ends;
      std::size_t given = 0;
      const auto take = [&](const decoded& part) {
        for (const auto end : part.ends)
          ends.push_back(given + end);
        given += part.text.size();
        CHECK((ends.empty() ? 0 : ends.back()) == given);
        CHECK(ends.size() == part.tokens_covered);
      };
      for (std::size_t at = 0; at < drawn.size(); at += group)
        take(made.push(std::span(drawn).subspan(at, std::min(group, drawn.size() - at))));
      take(made.finish());
      return ends;
    };
    const auto one = ends_in(1);
    CHECK(ends_in(4) == one);
    CHECK(ends_in(100) == one);
  }
}

TEST_CASE("an invalid stop string is rejected") {
  const auto made = stream_decoder::create(small_tokenizer(), {.stops = {""}});
  REQUIRE(!made);
  CHECK(made.error().param == "stop");
}
