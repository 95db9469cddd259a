// Pieces of each family of patterns, compared with Hugging Face's tokenizers running the patterns
// of the models' tokenizer.json files (tests/data/text/make_goldens.py).
#include "runtime/text/pre_tokenizers/pre_tokenizer.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <string>

using namespace baton;
using namespace baton::text;

namespace {

std::vector<std::uint32_t> ends_of(const pre_tokenizer& pre, std::string_view text) {
  std::vector<text_range> pieces;
  REQUIRE(pre.split(text, pieces).has_value());
  std::vector<std::uint32_t> ends;
  std::uint32_t done = 0;
  bool covers = true; // no gap, no overlap
  for (const text_range piece : pieces) {
    covers = covers && piece.begin == done && piece.end > piece.begin;
    done = piece.end;
    ends.push_back(done);
  }
  REQUIRE(covers);
  REQUIRE(done == text.size());
  return ends;
}

} // namespace

TEST_CASE("pieces match the reference for every family of patterns") {
  const auto data = goldens::golden("pre_tokenizer_pieces.json");
  const auto texts = data["texts"].get<std::vector<std::string>>();
  REQUIRE(texts.size() > 40);
  for (const auto& [name, ends] : data["ends"].items()) {
    const auto pre = pre_tokenizer::create(name);
    REQUIRE_MESSAGE(pre.has_value(), name);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(name);
      CAPTURE(texts[i]);
      CHECK(ends_of(*pre, texts[i]) == ends[i].get<std::vector<std::uint32_t>>());
    }
  }
}

TEST_CASE("ASCII words end where words of other letters do") {
  // A word found without the pattern engine must be the one that the engine finds.
  for (const auto& family : pre_tokenizer_families()) {
    if (!family.takes_words)
      continue;
    const auto pre = pre_tokenizer::create(family.names[0]);
    REQUIRE(pre.has_value());
    CAPTURE(family.names[0]);
    CHECK(ends_of(*pre, "ab cD'll e") == std::vector<std::uint32_t>{2, 5, 8, 10});
    CHECK(ends_of(*pre, "ab\xC3\xA9z x\xE1\xA0\x8E") == std::vector<std::uint32_t>{5, 7, 10});
    CHECK(ends_of(*pre, "  a b\nc") == std::vector<std::uint32_t>{1, 3, 5, 6, 7});
  }
}

TEST_CASE("every family has a golden, and every name of the table compiles") {
  const auto data = goldens::golden("pre_tokenizer_pieces.json");
  for (const auto& family : pre_tokenizer_families()) {
    bool is_tested = false;
    for (const auto& other : pre_tokenizer_families())
      for (const std::string_view name : other.names)
        is_tested = is_tested || (other.patterns.data() == family.patterns.data() &&
                                  data["ends"].contains(std::string(name)));
    CHECK_MESSAGE(is_tested, family.names[0]);
    for (const std::string_view name : family.names)
      CHECK_MESSAGE(pre_tokenizer::create(name).has_value(), name);
  }
}

TEST_CASE("an unknown pre-tokenizer is rejected by name") {
  for (const char* name : {"", "SmolLM", "smollm ", "unheard-of"}) {
    const auto pre = pre_tokenizer::create(name);
    REQUIRE(!pre);
    CHECK(pre.error().code == errc::unsupported_model);
    CHECK(pre.error().message.find("'" + std::string(name) + "'") != std::string::npos);
  }
}

TEST_CASE("a long run of one character is split in linear time by every family") {
  // CPU time, not wall time: a linear pattern needs some milliseconds for these texts, a quadratic
  // one several seconds.
  const double seconds_max = 1;
  const std::size_t length = 150'000;
  for (const auto& family : pre_tokenizer_families()) {
    const auto pre = pre_tokenizer::create(family.names[0]);
    REQUIRE(pre.has_value());
    for (const std::string unit : {"a", "A", " ", "\n", "1", "!", "\r\n", "\xE4\xB8\x80",
                                   "\xCC\x81", "\xC2\xA0", "'", "aB"}) {
      std::string run;
      while (run.size() < length)
        run += unit;
      for (const std::string& text : {run + "x", "x" + run + "\n x"}) {
        CAPTURE(family.names[0]);
        CAPTURE(unit);
        const std::clock_t start = std::clock();
        ends_of(*pre, text);
        CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < seconds_max);
      }
    }
  }
}
