// Ids to text, one token at a time.
#include "runtime/text/stream/detokenizer.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::text;
using baton::text::goldens::small_tokenizer;

namespace {

// Byte tokens: every byte is a token of the small vocabulary.
std::vector<token_id> tokens_of_bytes(std::string_view bytes) {
  std::vector<token_id> ids;
  for (const char byte : bytes)
    for (token_id id = 0; id < static_cast<token_id>(small_tokenizer().size()); ++id)
      if (small_tokenizer().piece(id) == std::string_view(&byte, 1)) {
        ids.push_back(id);
        break;
      }
  REQUIRE(ids.size() == bytes.size());
  return ids;
}

std::vector<std::string> parts_of(std::string_view bytes) {
  detokenizer decode(small_tokenizer(), true);
  std::vector<std::string> parts;
  for (const token_id id : tokens_of_bytes(bytes))
    decode.push(id, parts.emplace_back());
  decode.finish(parts.emplace_back());
  return parts;
}

const std::string bad = std::string(replacement_character);

} // namespace

TEST_CASE("a character is held back until it is complete") {
  using parts = std::vector<std::string>;
  CHECK(parts_of("ab") == parts{"a", "b", ""});
  CHECK(parts_of("\xC3\xA9!") == parts{"", "\xC3\xA9", "!", ""});
  CHECK(parts_of("\xE2\x82\xAC") == parts{"", "", "\xE2\x82\xAC", ""});
  CHECK(parts_of("\xF0\x9F\x98\x80") == parts{"", "", "", "\xF0\x9F\x98\x80", ""});
}

TEST_CASE("U+FFFD is emitted when a sequence is known to be invalid, or at the end") {
  using parts = std::vector<std::string>;
  CHECK(parts_of("\x80") == parts{bad, ""});
  CHECK(parts_of("\xFF\xFE") == parts{bad, bad, ""});
  CHECK(parts_of("\xC3x") == parts{"", bad + "x", ""});
  CHECK(parts_of("\xE2\x82x") == parts{"", "", bad + "x", ""});
  CHECK(parts_of("\xE2\x82\xC3\xA9") == parts{"", "", bad, "\xC3\xA9", ""});
  CHECK(parts_of("\xF0\x9F\x98") == parts{"", "", "", bad});
  CHECK(parts_of("\xED\xA0\x80") == parts{"", bad + bad, bad, ""});
}

TEST_CASE("the parts form the text of all ids, for random bytes") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::string bytes =
        round % 2 == 0 ? goldens::random_bytes(random, 40) : goldens::random_utf8(random, 20);
    std::string together;
    for (const std::string& part : parts_of(bytes)) {
      CHECK(utf8_valid_prefix(part) == part.size());
      together += part;
    }
    CHECK(together == small_tokenizer().decode(tokens_of_bytes(bytes), false).value());
    if (round % 2 == 1)
      CHECK(together == bytes);
  }
}

TEST_CASE("skipped control tokens have no text and do not split a character") {
  const token_id begin = small_tokenizer().special_id("<|begin|>").value();
  const auto euro = tokens_of_bytes("\xE2\x82\xAC");
  for (const bool skip : {true, false}) {
    detokenizer decode(small_tokenizer(), skip);
    std::string text;
    decode.push(euro[0], text);
    decode.push(begin, text);
    decode.push(euro[1], text);
    decode.push(euro[2], text);
    decode.finish(text);
    CHECK(text == (skip ? "\xE2\x82\xAC" : bad + "<|begin|>" + bad + bad));
  }
}

TEST_CASE("a control token that an answer is read by is shown") {
  const token_id begin = small_tokenizer().special_id("<|begin|>").value();
  const token_id other = small_tokenizer().special_id("<|end|>").value();
  detokenizer decode(small_tokenizer(), true, /*begins_text=*/true, {begin});
  std::string text;
  decode.push(begin, text);
  decode.push(other, text);
  CHECK(text == "<|begin|>");
}

TEST_CASE("user-defined tokens are shown, ids outside the vocabulary have no text") {
  detokenizer decode(small_tokenizer(), true);
  std::string text;
  decode.push(small_tokenizer().special_id("<tool_call>").value(), text);
  decode.push(static_cast<token_id>(small_tokenizer().size()), text);
  decode.push(-1, text);
  CHECK(text == "<tool_call>");
}
