// The encoder over a small vocabulary with all bytes; ids compared with Hugging Face's tokenizers.
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::text;
using goldens::golden;
using goldens::small_tokenizer;
using goldens::small_vocabulary;

namespace {

using token_ids = std::vector<token_id>;

token_id special(std::string_view text) {
  return small_tokenizer().special_id(text).value();
}

token_ids joined(std::initializer_list<token_ids> parts) {
  token_ids all;
  for (const token_ids& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

token_ids plain(std::string_view text) {
  return small_tokenizer().encode_text(text).value();
}

bool has_special(const token_ids& some) {
  return std::any_of(some.begin(), some.end(), [](token_id id) {
    return small_tokenizer().is_control(id) || id == special("<tool_call>");
  });
}

} // namespace

TEST_CASE("ids of a small vocabulary match the reference") {
  const auto rows = golden("small_vocabulary.json")["cases"];
  REQUIRE_FALSE(rows.empty());
  encode_scratch scratch;
  for (int round = 0; round < 2; ++round) // the second time from the cache
    for (const auto& row : rows) {
      CAPTURE(row["text"].get<std::string>());
      CHECK(small_tokenizer().encode_text(row["text"].get<std::string>(), scratch).value() ==
            row["ids"].get<token_ids>());
    }
}

TEST_CASE("decoding encoded text gives the same bytes, for text and for random bytes") {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const std::string text = round % 2 == 0 ? goldens::random_utf8(random, random() % 120)
                                            : goldens::random_bytes(random, random() % 120);
    const token_ids encoded = plain(text);
    CHECK(small_tokenizer().decode_bytes(encoded, false).value() == text);
    CHECK(!has_special(encoded));
  }
}

TEST_CASE("each of the 256 bytes alone is restored") {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    CHECK(small_tokenizer().decode_bytes(plain(text), false).value() == text);
  }
}

TEST_CASE("bytes that are not UTF-8 are separate tokens and leave the text around them alone") {
  CHECK(plain("the\xFFstart") == joined({plain("the"), plain("\xFF"), plain("start")}));
  CHECK(plain("\xE2\x82") == joined({plain("\xE2"), plain("\x82")}));
  CHECK(plain("a\xED\xA0\x80z").size() == 5);
}

TEST_CASE("a byte missing in the vocabulary becomes U+FFFD if it is not UTF-8, else is dropped") {
  vocabulary words = small_vocabulary();
  for (std::size_t id = 0; id < words.tokens.size(); ++id)
    if (words.tokens[id] == "ÿ" || words.tokens[id] == "ą") // bytes FF and 05
      words.kinds[id] = token_kind::unused;
  const auto made = tokenizer::create(words);
  REQUIRE(made.has_value());
  const auto round_trip = [&](std::string_view text) {
    return made->decode_bytes(made->encode_text(text).value(), false).value();
  };
  CHECK(round_trip("a\xFFz") == "a\xEF\xBF\xBDz");
  CHECK(round_trip("a\x05z") == "az");
}

TEST_CASE("user text never yields a special token") {
  for (const char* text : {"<|begin|>", "a<|end|>x", "<tool_call>", "<unk>", "<|begin|><|end|>"}) {
    const token_ids encoded = plain(text);
    CHECK_MESSAGE(!has_special(encoded), text);
    CHECK(small_tokenizer().decode_bytes(encoded, false).value() == text);
  }
}

TEST_CASE("a prompt that its author has already formatted yields special tokens anywhere") {
  const auto parsed = [](std::string_view text) {
    return small_tokenizer().encode_prompt(text, true).value();
  };
  CHECK(parsed("<|begin|>user hi<|end|>y") ==
        joined({{special("<|begin|>")}, plain("user hi"), {special("<|end|>")}, plain("y")}));
  CHECK(parsed("<|end|>x") == token_ids{special("<|end|>x")}); // the longest
  CHECK(parsed("<|end|>") == token_ids{special("<|end|>")});
  CHECK(parsed("<|en") == plain("<|en"));
  CHECK(small_tokenizer().encode_prompt("<|end|>x", false).value() == plain("<|end|>x"));
}

TEST_CASE("segments yield special tokens only where they are allowed") {
  const text_segment segments[] = {
      {"<|begin|>user ", true}, {"hi<|end|>", false}, {"<|end|>x", true}};
  CHECK(small_tokenizer().encode(segments).value() ==
        joined({{special("<|begin|>")}, plain("user hi<|end|>"), {special("<|end|>x")}}));
}

TEST_CASE("a special token does not grow across the border to a user's text") {
  const text_segment begins_outside[] = {{"<|be", false}, {"gin|>", true}};
  CHECK(small_tokenizer().encode(begins_outside).value() == plain("<|begin|>"));
  const text_segment ends_outside[] = {{"<|end|>", true}, {"x", false}}; // "<|end|>x" is a token
  CHECK(small_tokenizer().encode(ends_outside).value() ==
        joined({{special("<|end|>")}, plain("x")}));
  const text_segment cut[] = {{"<|be", true}, {"", false}, {"gin|>", true}};
  CHECK(small_tokenizer().encode(cut).value() == token_ids{special("<|begin|>")});
}

TEST_CASE("ordinary text is tokenized across the borders of segments") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::string text = goldens::random_utf8(random, 60);
    std::vector<text_segment> segments;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t part = 1 + random() % 9; // also cuts characters
      segments.push_back({text.substr(at, part), random() % 2 == 0});
      at += part;
    }
    CHECK(small_tokenizer().encode(segments).value() == plain(text));
  }
}

TEST_CASE("a user-defined run of white space is found in any text, as in the reference") {
  CHECK(plain("a\t\tb") == joined({plain("a"), {special("\t\t")}, plain("b")}));
}

TEST_CASE("BOS is added to prompts if the file specifies it, else by the family's default") {
  struct row {
    const char* pre;
    std::optional<bool> add_bos;
    bool has_bos;
    bool adds;
  };
  const row rows[] = {{"gpt-2", {}, true, false},      {"gpt-2", true, true, true},
                      {"llama-bpe", {}, true, true},   {"llama-bpe", false, true, false},
                      {"llama-bpe", {}, false, false}, {"gpt-2", true, false, false}};
  for (const row& expected : rows) {
    vocabulary words = small_vocabulary(expected.pre);
    words.add_bos = expected.add_bos;
    if (expected.has_bos)
      words.bos = special("<|begin|>");
    const auto made = tokenizer::create(words).value().encode_prompt("hi", false).value();
    CHECK((made.at(0) == special("<|begin|>")) == expected.adds);
  }
}

TEST_CASE("families that look up whole words first do not merge them") {
  vocabulary words = small_vocabulary("llama-bpe");
  words.tokens.push_back("Ġzebra"); // reached by no merge
  words.kinds.push_back(token_kind::normal);
  const auto last = static_cast<token_id>(words.tokens.size() - 1);
  CHECK(tokenizer::create(words).value().encode_text(" zebra").value() == token_ids{last});
  CHECK(tokenizer::create(words).value().encode_text(" zebras").value().size() > 1);
  words.pre = "gpt-2";
  CHECK(tokenizer::create(words).value().encode_text(" zebra").value() == plain(" zebra"));
}

TEST_CASE("merges to special tokens are never applied") {
  vocabulary words = small_vocabulary("gpt-2");
  for (std::size_t id = 0; id < words.tokens.size(); ++id)
    if (words.tokens[id] == "aa")
      words.kinds[id] = token_kind::control;
  const auto made = tokenizer::create(words);
  REQUIRE(made.has_value());
  const auto encoded = made->encode_text("aa").value();
  CHECK(encoded == token_ids{plain("a")[0], plain("a")[0]});
}

TEST_CASE("end tokens are eos, eot and the control tokens known to end a turn") {
  vocabulary words = small_vocabulary();
  CHECK(token_ids(small_tokenizer().end_ids().begin(), small_tokenizer().end_ids().end()) ==
        token_ids{special("<|end|>")});
  words.eos = special("<|begin|>");
  words.eot = 5;
  const auto made = tokenizer::create(words).value();
  CHECK(token_ids(made.end_ids().begin(), made.end_ids().end()) ==
        token_ids{5, special("<|begin|>"), special("<|end|>")});
  words.tokens.push_back("<|channel|>"); // answers of several messages
  words.kinds.push_back(token_kind::control);
  const auto channels = tokenizer::create(words).value();
  CHECK(token_ids(channels.end_ids().begin(), channels.end_ids().end()) ==
        token_ids{5, special("<|begin|>")});
}

TEST_CASE("a scratch used with two vocabularies does not mix their ids") {
  vocabulary words = small_vocabulary();
  std::swap(words.tokens[70], words.tokens[71]);
  const auto other = tokenizer::create(words).value();
  CHECK(other.fingerprint() != small_tokenizer().fingerprint());
  encode_scratch scratch;
  const std::string text = std::string(small_tokenizer().piece(70)) + " x";
  const token_ids first = small_tokenizer().encode_text(text, scratch).value();
  const token_ids second = other.encode_text(text, scratch).value();
  CHECK(first == plain(text));
  CHECK(second != first);
  CHECK(other.decode_bytes(second, false).value() == text);
}

TEST_CASE("a text over the limit is rejected, also across segments") {
  const std::string most(encode_bytes_max / 2, ' ');
  const text_segment segments[] = {{most, true}, {most + ' ', false}};
  const auto refused = small_tokenizer().encode(segments);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::payload_too_large);
  CHECK(small_tokenizer().encode_text(most + most + ' ').error().code == errc::payload_too_large);
}

TEST_CASE("ids outside the vocabulary are no text: decode rejects them, a piece is empty") {
  const auto size = static_cast<token_id>(small_tokenizer().size());
  for (const token_id id : {-1, size, size + 100}) {
    CHECK(small_tokenizer().piece(id).empty());
    CHECK(!small_tokenizer().is_control(id));
    const auto refused = small_tokenizer().decode(token_ids{id}, false);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::invalid_value);
  }
}

TEST_CASE("decode shows or skips control tokens and replaces invalid UTF-8") {
  const token_ids some =
      joined({{special("<|begin|>")}, plain("a\xE2\x82z"), {special("<tool_call>")}});
  CHECK(small_tokenizer().decode(some, true).value() == "a\xEF\xBF\xBDz<tool_call>");
  CHECK(small_tokenizer().decode(some, false).value() == "<|begin|>a\xEF\xBF\xBDz<tool_call>");
}

TEST_CASE("a byte token in angle notation is its byte") {
  vocabulary words = small_vocabulary();
  words.tokens.push_back("<0x0A>");
  words.kinds.push_back(token_kind::byte);
  const auto made = tokenizer::create(words).value();
  CHECK(made.piece(static_cast<token_id>(words.tokens.size() - 1)) == "\n");
}
