// SentencePiece vocabularies: ids compared with the package sentencepiece
// (tests/data/text/make_sentencepiece_goldens.py).
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>

using namespace baton;
using namespace baton::text;
using goldens::sentencepiece_golden;
using goldens::sentencepiece_vocabulary;

namespace {

using token_ids = std::vector<token_id>;

const std::string bpe = "bpe, prefix True, remove False";
const std::string unigram_model = "unigram, prefix True, remove False";

tokenizer made_of(const std::string& name) {
  return tokenizer::create(sentencepiece_vocabulary(name)).value();
}

} // namespace

TEST_CASE("ids of SentencePiece models match the reference, text by text") {
  const auto texts = sentencepiece_golden()["texts"].get<std::vector<std::string>>();
  REQUIRE(texts.size() > 50);
  for (const auto& model : sentencepiece_golden()["models"]) {
    CAPTURE(model["name"].get<std::string>());
    const auto words = tokenizer::create(goldens::vocabulary_of(model));
    REQUIRE(words.has_value());
    encode_scratch scratch;
    for (int round = 0; round < 2; ++round) // the second time from the cache
      for (std::size_t i = 0; i < texts.size(); ++i) {
        CAPTURE(texts[i]);
        CHECK(words->encode_text(texts[i], scratch).value() == model["ids"][i].get<token_ids>());
      }
  }
}

TEST_CASE("bytes that are not UTF-8 give the reference's ids") {
  const auto broken = sentencepiece_golden()["broken"].get<std::vector<std::string>>();
  for (const auto& model : sentencepiece_golden()["models"]) {
    CAPTURE(model["name"].get<std::string>());
    const auto words = tokenizer::create(goldens::vocabulary_of(model));
    REQUIRE(words.has_value());
    for (std::size_t i = 0; i < broken.size(); ++i) {
      CAPTURE(broken[i]);
      CHECK(words->encode_text(goldens::from_hex(broken[i])).value() ==
            model["broken_ids"][i].get<token_ids>());
    }
  }
}

TEST_CASE("decoding a SentencePiece model's ids gives the text back") {
  std::mt19937 random(4);
  for (const std::string& name : {bpe, std::string("bpe, prefix False, remove False"),
                                  unigram_model, std::string("bpe across spaces")}) {
    const tokenizer words = made_of(name);
    for (int round = 0; round < 200; ++round) {
      const std::string text = goldens::random_utf8(random, random() % 80);
      const token_ids encoded = words.encode_text(text).value();
      CHECK(words.decode(encoded, false).value() == with_plain_spaces(text));
      CHECK(std::none_of(encoded.begin(), encoded.end(),
                         [&](token_id id) { return words.is_control(id); }));
    }
  }
}

TEST_CASE("a SentencePiece model's control tokens occur only in segments that allow them") {
  for (const std::string& name : {bpe, unigram_model}) {
    const tokenizer words = made_of(name);
    const token_ids plain = words.encode_text("<s>hi</s>").value();
    CHECK(std::find(plain.begin(), plain.end(), 1) == plain.end());
    const text_segment segments[] = {{"<s>", true}, {"hi</s>", false}, {"</s>", true}};
    token_ids expected = {1};
    const token_ids between = words.encode_text("hi</s>").value();
    expected.insert(expected.end(), between.begin(), between.end());
    expected.push_back(2);
    CHECK(words.encode(segments).value() == expected);
    CHECK(words.special_id("</s>") == 2);
    // A raw prompt is one such segment; its texts are the parts between special tokens.
    const text_segment whole[] = {{"<s>hi</s> you", true}};
    const token_ids raw = words.encode_prompt("<s>hi</s> you", true).value();
    const std::size_t added = words.adds_bos() ? 1 : 0;
    CHECK(token_ids(raw.begin() + static_cast<std::ptrdiff_t>(added), raw.end()) ==
          words.encode(whole).value());
    CHECK(std::count(raw.begin(), raw.end(), 2) == 1);
    CHECK(words.special_id("<table>") == 3);
  }
}

TEST_CASE("the leading space is also added after a special token, unless there is no text") {
  const tokenizer words = made_of(bpe);
  const text_segment segments[] = {{"<s>the</s><s>", true}, {"the", false}};
  const token_ids the = words.encode_text("the").value();
  token_ids expected = {1};
  expected.insert(expected.end(), the.begin(), the.end());
  expected.insert(expected.end(), {2, 1});
  expected.insert(expected.end(), the.begin(), the.end());
  CHECK(words.encode(segments).value() == expected);
  CHECK(words.encode_text("").value().empty());
}

TEST_CASE("BOS precedes the prompts of llama vocabularies unless the file disables it") {
  vocabulary words = sentencepiece_vocabulary(bpe);
  CHECK(tokenizer::create(words).value().encode_prompt("", false).value() == token_ids{1});
  encode_scratch scratch;
  const auto made = tokenizer::create(words).value();
  const auto bare = made.encode_prompt("hi", false, /*adds_special=*/false, scratch).value();
  CHECK(bare == made.encode_text("hi").value());
  CHECK(made.with_special(bare) == made.encode_prompt("hi", false).value());
  words.add_bos = false;
  CHECK(tokenizer::create(words).value().encode_prompt("", false).value().empty());
  CHECK(made_of(unigram_model).encode_prompt("", false).value().empty());
}

TEST_CASE("user-defined tokens that control the model are excluded from user text") {
  for (const std::string& name : {bpe, unigram_model}) {
    vocabulary words = sentencepiece_vocabulary(name);
    words.tokens.insert(words.tokens.end(), {"<|turn|>", "<think>", "<think>"}); // the last in vain
    words.kinds.resize(words.tokens.size(), token_kind::user_defined);
    words.scores.resize(words.tokens.size(), 0);
    words.chat_template = "{{ '<think>' + '<|tu' + 'rn|>' }} \n\n";
    const auto turn = static_cast<token_id>(words.tokens.size() - 3);
    const token_id think = turn + 1;
    const tokenizer made = tokenizer::create(words).value();
    const std::string text = "a<|turn|>b<think>c<table>\n\n";
    const token_ids plain = made.encode_text(text).value();
    CHECK(std::find(plain.begin(), plain.end(), turn) == plain.end());
    CHECK(std::find(plain.begin(), plain.end(), think) == plain.end());
    CHECK(std::find(plain.begin(), plain.end(), think + 1) == plain.end());
    CHECK(std::count(plain.begin(), plain.end(), 3) == 1); // <table>: an ordinary piece
    CHECK(std::count(plain.begin(), plain.end(), 7) == 1); // two newlines, although in the template
    const text_segment trusted[] = {{text, true}};
    const token_ids steered = made.encode(trusted).value();
    CHECK(std::count(steered.begin(), steered.end(), turn) == 1);
    CHECK(std::count(steered.begin(), steered.end(), think) == 1);
    CHECK(made.decode(steered, true).value().find("<think>") != std::string::npos); // is shown
  }
}

TEST_CASE("user-defined tokens may be written with spaces, as newer files do") {
  vocabulary words = sentencepiece_vocabulary(bpe);
  const token_ids expected = tokenizer::create(words).value().encode_text("a     b").value();
  words.tokens[5] = "  "; // of U+2581 twice
  words.tokens[6] = "    ";
  const tokenizer made = tokenizer::create(words).value();
  CHECK(made.encode_text("a     b").value() == expected);
  CHECK(made.piece(5) == "  ");
}

TEST_CASE("the work for the longest runs is linear in the text") {
  for (const std::string& name : {bpe, unigram_model, std::string("bpe across spaces"),
                                  std::string("unigram with a character map")}) {
    const tokenizer words = made_of(name);
    for (const std::string unit :
         {"a", " ", "ab", "\u4e16", "\xFF", "<table", "\n", "\uFDFA", "an"}) {
      CAPTURE(name);
      CAPTURE(unit);
      const auto steps = [&](std::size_t bytes) {
        std::string text;
        while (text.size() < bytes)
          text += unit;
        encode_scratch scratch;
        REQUIRE(words.encode_text(text, scratch).has_value());
        return scratch.steps();
      };
      const std::uint64_t few = steps(std::size_t{1} << 15U);
      const std::uint64_t many = steps(std::size_t{1} << 18U);
      CHECK(many <= 9 * few); // for eight times the text
      CHECK(many <= 100 * (std::uint64_t{1} << 18U));
    }
  }
}

TEST_CASE("a text that grows beyond its bound in normalisation is rejected") {
  const tokenizer words = made_of("unigram with a character map");
  std::string text;
  while (text.size() + 3 <= encode_bytes_max)
    text += "\u00bd"; // becomes "1 2": five bytes of two
  CHECK(words.encode_text(text).has_value());
}

TEST_CASE("a malformed SentencePiece vocabulary is rejected with the reason") {
  struct row {
    const char* reason;
    std::function<void(vocabulary&)> spoil;
  };
  const row rows[] = {
      {"but 0 scores", [](auto& v) { v.scores.clear(); }},
      {"scores", [](auto& v) { v.scores.pop_back(); }},
      {"score of token 9 is not a finite",
       [](auto& v) { v.scores[9] = std::numeric_limits<float>::quiet_NaN(); }},
      {"score of token 9 is not a finite",
       [](auto& v) { v.scores[9] = -std::numeric_limits<float>::infinity(); }},
      {"token types", [](auto& v) { v.kinds.pop_back(); }},
      {"byte tokens for 255 of 256",
       [](auto& v) {
         *std::find(v.kinds.begin(), v.kinds.end(), token_kind::byte) = token_kind::unused;
       }},
      {"not written as <0x00>", [](auto& v) { v.kinds[20 + 256] = token_kind::byte; }},
      {"neither byte tokens nor an unknown token",
       [](auto& v) {
         std::replace(v.kinds.begin(), v.kinds.end(), token_kind::byte, token_kind::unused);
         v.kinds[0] = token_kind::unused;
         v.unknown.reset();
       }},
      {"precompiled_charsmap", [](auto& v) { v.character_map = "no map at all"; }},
  };
  for (const std::string& name : {bpe, unigram_model})
    for (const row& wrong : rows) {
      vocabulary words = sentencepiece_vocabulary(name);
      wrong.spoil(words);
      const auto made = tokenizer::create(words);
      REQUIRE_MESSAGE(!made, wrong.reason);
      CHECK(made.error().code == errc::bad_model_file);
      CHECK_MESSAGE(made.error().message.find(wrong.reason) != std::string::npos,
                    made.error().message);
    }
  vocabulary words = sentencepiece_vocabulary(unigram_model);
  std::replace(words.kinds.begin(), words.kinds.end(), token_kind::normal, token_kind::unused);
  CHECK(tokenizer::create(words).error().message.find("no ordinary tokens") != std::string::npos);
}

TEST_CASE("a scratch used with vocabularies that differ in one flag does not mix their ids") {
  const tokenizer one = made_of("bpe, prefix True, remove True");
  const tokenizer other = made_of("bpe, prefix False, remove True");
  CHECK(one.fingerprint() != other.fingerprint());
  vocabulary rescored = sentencepiece_vocabulary(bpe);
  rescored.scores[300] -= 1;
  CHECK(tokenizer::create(rescored).value().fingerprint() != made_of(bpe).fingerprint());
}
