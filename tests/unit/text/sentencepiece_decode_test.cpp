// Ids of SentencePiece models to text, whole and streamed, compared with the package sentencepiece.
#include "runtime/text/stream/stream_decoder.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::text;
using goldens::sentencepiece_golden;
using goldens::sentencepiece_vocabulary;

namespace {

using token_ids = std::vector<token_id>;

std::string streamed(const tokenizer& words, const token_ids& some, bool begins_text = true) {
  stream_decoder_config config;
  config.begins_text = begins_text;
  auto stream = stream_decoder::create(words, config).value();
  std::string text;
  std::uint32_t covered = 0;
  for (const token_id id : some) {
    const decoded part = stream.push(std::span(&id, 1));
    CHECK(utf8_valid_prefix(part.text) == part.text.size());
    CHECK(part.tokens_covered >= covered);
    covered = part.tokens_covered;
    text += part.text;
  }
  const decoded last = stream.finish();
  CHECK(last.tokens_covered == some.size());
  return text + last.text;
}

bool has_unknown(const token_ids& some) { // the reference prints its own sign for it
  return std::find(some.begin(), some.end(), 0) != some.end();
}

token_id id_of(const vocabulary& words, const std::string& token) {
  const auto found = std::find(words.tokens.begin(), words.tokens.end(), token);
  REQUIRE(found != words.tokens.end());
  return static_cast<token_id>(found - words.tokens.begin());
}

} // namespace

TEST_CASE("texts and random ids decode as in the reference, whole and token by token") {
  for (const auto& model : sentencepiece_golden()["models"]) {
    CAPTURE(model["name"].get<std::string>());
    const auto words = tokenizer::create(goldens::vocabulary_of(model));
    REQUIRE(words.has_value());
    for (std::size_t i = 0; i < model["ids"].size(); ++i) {
      const token_ids some = model["ids"][i].get<token_ids>();
      if (has_unknown(some))
        continue;
      CHECK(words->decode(some, true).value() == model["decoded"][i].get<std::string>());
      CHECK(streamed(*words, some) == model["decoded"][i].get<std::string>());
    }
    for (const auto& row : model["streams"]) {
      const token_ids some = row["ids"].get<token_ids>();
      CAPTURE(row["text"].get<std::string>());
      CHECK(words->decode(some, true).value() == row["text"].get<std::string>());
      CHECK(streamed(*words, some) == row["text"].get<std::string>());
    }
  }
}

TEST_CASE("the streamed text of any ids is their text") {
  std::mt19937 random(6);
  const tokenizer words =
      tokenizer::create(sentencepiece_vocabulary("bpe, prefix True, remove False")).value();
  for (int round = 0; round < 300; ++round) {
    token_ids some(random() % 20);
    for (token_id& id : some)
      id = static_cast<token_id>(random() % words.size());
    CHECK(streamed(words, some) == words.decode(some, true).value());
  }
}

TEST_CASE("only the first space of a text is dropped, and none in a continuation") {
  const vocabulary words = sentencepiece_vocabulary("bpe, prefix True, remove False");
  const tokenizer made = tokenizer::create(words).value();
  const token_id the = id_of(words, "\u2581the");
  const token_id space = id_of(words, "\u2581");
  CHECK(streamed(made, {the, the}) == "the the");
  CHECK(streamed(made, {1, the, the}) == "the the"); // BOS is not shown
  CHECK(streamed(made, {space, the}) == " the");
  CHECK(streamed(made, {space}).empty());
  CHECK(streamed(made, {the, the}, /*begins_text=*/false) == " the the");
  CHECK(made.decode(token_ids{1, the}, false).value() ==
        "<s> the"); // "<s>" is the text's beginning
  const tokenizer bare =
      tokenizer::create(sentencepiece_vocabulary("bpe, prefix False, remove False")).value();
  CHECK(streamed(bare, {the}) == " the");
}

TEST_CASE("byte tokens that form a character are held back until it is complete") {
  const vocabulary words = sentencepiece_vocabulary("bpe, prefix True, remove False");
  const tokenizer made = tokenizer::create(words).value();
  const token_ids euro = {id_of(words, "<0xE2>"), id_of(words, "<0x82>"), id_of(words, "<0xAC>")};
  detokenizer stream(made, true);
  std::string text;
  CHECK(stream.push(euro[0], text) == 1);
  CHECK(text.empty());
  CHECK(stream.push(euro[1], text) == 1);
  CHECK(text.empty());
  CHECK(stream.push(euro[2], text) == 1);
  CHECK(text == "\u20ac");
  CHECK(streamed(made, {euro[0], euro[1], id_of(words, "\u2581the")}) == "\uFFFD the");
  CHECK(streamed(made, {id_of(words, "<0x20>"), id_of(words, "\u2581the")}) == "  the");
}

TEST_CASE("after finish a new text begins") {
  const vocabulary words = sentencepiece_vocabulary("bpe, prefix True, remove False");
  const tokenizer made = tokenizer::create(words).value();
  detokenizer stream(made, true);
  std::string text;
  stream.push(id_of(words, "\u2581the"), text);
  stream.finish(text);
  stream.push(id_of(words, "\u2581the"), text);
  CHECK(text == "thethe");
}
