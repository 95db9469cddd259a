// Unicode's normal forms and lower case, compared with Hugging Face's normalizers
// (tests/data/text/make_tokenizer_json_goldens.py).
#include "runtime/text/bpe/sentencepiece_text.hpp"
#include "runtime/text/pre_tokenizers/text_steps.hpp"
#include "runtime/text/unicode/normal_forms.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::text;

namespace {

std::string repeated(std::string_view unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i)
    text += unit;
  return text;
}

} // namespace

TEST_CASE("normal forms match Hugging Face's normalizers") {
  const auto cases = text::goldens::golden("normal_forms.json");
  REQUIRE(cases.size() > 50);
  for (const auto& each : cases) {
    const auto text = each["text"].get<std::string>();
    CAPTURE(text);
    CHECK(normalized(text, normal_form::nfc) == each["nfc"].get<std::string>());
    CHECK(normalized(text, normal_form::nfd) == each["nfd"].get<std::string>());
    CHECK(normalized(text, normal_form::nfkc) == each["nfkc"].get<std::string>());
    CHECK(normalized(text, normal_form::nfkd) == each["nfkd"].get<std::string>());
    CHECK(lower_case(text) == each["lower_case"].get<std::string>());
  }
}

TEST_CASE("normalising twice changes nothing") {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const auto text = text::goldens::random_utf8(random, 50);
    for (const auto form :
         {normal_form::nfc, normal_form::nfd, normal_form::nfkc, normal_form::nfkd}) {
      const auto once = normalized(text, form);
      CHECK(normalized(once, form) == once);
    }
    CHECK(normalized(normalized(text, normal_form::nfd), normal_form::nfc) ==
          normalized(text, normal_form::nfc));
  }
}

TEST_CASE("bytes that are not UTF-8 stay, and nothing composes across them") {
  CHECK(normalized("e\xCC\x81\xFF\xCC\x81x\xC3", normal_form::nfc) == "\xC3\xA9\xFF\xCC\x81x\xC3");
  CHECK(normalized("e\xFF\xCC\x81", normal_form::nfc) == "e\xFF\xCC\x81");
  CHECK(normalized("\xED\xA0\x80\xE2\x82", normal_form::nfkd) == "\xED\xA0\x80\xE2\x82");
  CHECK(lower_case("A\xFFZ\xC3") == "a\xFFz\xC3");
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const auto bytes = text::goldens::random_bytes(random, 64);
    const auto once = normalized(bytes, normal_form::nfc);
    CHECK(normalized(once, normal_form::nfc) == once);
  }
}

// Half of the marks are in the wrong order: sorting by insertion would take an hour.
TEST_CASE("a long run of marks is sorted quickly") {
  constexpr std::size_t many = 500'000;
  const auto above = repeated("\xCC\x81", many); // U+0301, class 230
  const auto below = repeated("\xCC\xA3", many); // U+0323, class 220
  CHECK(normalized("x" + above + below, normal_form::nfd) == "x" + below + above);
}

TEST_CASE("a text that grows beyond the bound is rejected") {
  const auto steps = text_steps::create({{text_step::kind::nfkd, {}, {}}}).value();
  const auto one = std::string("\xEF\xB7\xBA"); // U+FDFA: 33 bytes for 3
  CHECK(steps.apply(one).value().text.size() == 33);
  const auto many = steps.apply(repeated(one, normalized_bytes_max / 33 + 1));
  REQUIRE(!many);
  CHECK(many.error().code == errc::payload_too_large);
}
