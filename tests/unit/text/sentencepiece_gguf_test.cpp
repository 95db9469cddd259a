// The GGUF keys of SentencePiece vocabularies.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/bpe/vocabulary_checkpoint.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

using namespace baton;
using namespace baton::text;
using baton::text::goldens::golden;
using baton::text::goldens::sentencepiece_vocabulary;

namespace {

using writer = baton::testing::gguf_writer;

constexpr std::uint32_t kind_of_array = 9; // GGUF's value types
constexpr std::uint32_t kind_of_u8 = 0;

void set_bytes(writer& out, std::string_view key, std::string_view bytes) {
  baton::testing::byte_buffer payload;
  payload.put(kind_of_u8).put(static_cast<std::uint64_t>(bytes.size()));
  payload.put_bytes(std::as_bytes(std::span(bytes)));
  out.set_raw(key, kind_of_array, payload);
}

std::vector<float> float_scores(const vocabulary& words) {
  std::vector<float> scores;
  for (const double score : words.scores)
    scores.push_back(static_cast<float>(score));
  return scores;
}

std::vector<std::int32_t> types_of(const vocabulary& words) {
  std::vector<std::int32_t> types;
  for (const token_kind kind : words.kinds)
    types.push_back(static_cast<std::int32_t>(kind));
  return types;
}

writer file_of(const vocabulary& words) {
  writer out;
  out.set_string("general.architecture", "llama")
      .set_string("tokenizer.ggml.model", words.model)
      .set_strings("tokenizer.ggml.tokens", words.tokens)
      .set_f32s("tokenizer.ggml.scores", float_scores(words))
      .set_i32s("tokenizer.ggml.token_type", types_of(words))
      .set_u32("tokenizer.ggml.bos_token_id", 1)
      .set_u32("tokenizer.ggml.eos_token_id", 2)
      .set_u32("tokenizer.ggml.unknown_token_id", 0);
  return out;
}

result<vocabulary> read_back(const writer& out) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("baton-sentencepiece-" + std::to_string(getpid()) + ".gguf");
  REQUIRE(out.write(path).has_value());
  const auto file = model::gguf_file::open(path);
  std::filesystem::remove(path);
  REQUIRE(file.has_value());
  return vocabulary_from(*file);
}

// The file of a tokenizer.json's vocabulary, as converters write Gemma 4's.
writer merged_file_of(const vocabulary& words) {
  writer out;
  out.set_string("tokenizer.ggml.model", "gemma4")
      .set_strings("tokenizer.ggml.tokens", words.tokens)
      .set_strings("tokenizer.ggml.merges", words.merges)
      .set_f32s("tokenizer.ggml.scores", std::vector<float>(words.tokens.size(), -1000.0F))
      .set_i32s("tokenizer.ggml.token_type", types_of(words))
      .set_u32("tokenizer.ggml.bos_token_id", 1)
      .set_u32("tokenizer.ggml.eos_token_id", 2)
      .set_u32("tokenizer.ggml.unknown_token_id", 0)
      .set_bool("tokenizer.ggml.add_space_prefix", false);
  return out;
}

} // namespace

TEST_CASE("a SentencePiece vocabulary is read from a file, with defaults for absent keys") {
  const vocabulary words = sentencepiece_vocabulary("bpe, prefix True, remove False");
  const auto plain = read_back(file_of(words));
  REQUIRE(plain.has_value());
  CHECK(plain->model == "llama");
  CHECK(plain->tokens == words.tokens);
  CHECK(plain->scores == words.scores);
  CHECK(plain->kinds == words.kinds);
  CHECK(plain->add_space_prefix);
  CHECK(!plain->remove_extra_whitespaces);
  CHECK(plain->character_map.empty());
  CHECK(tokenizer::create(*plain).value().fingerprint() ==
        tokenizer::create(words).value().fingerprint());
}

TEST_CASE("the flags and the character map of a file are used") {
  const vocabulary words = sentencepiece_vocabulary("unigram with a character map");
  writer out = file_of(words);
  out.set_bool("tokenizer.ggml.add_space_prefix", false);
  out.set_bool("tokenizer.ggml.remove_extra_whitespaces", true);
  set_bytes(out, "tokenizer.ggml.precompiled_charsmap", words.character_map);
  const auto made = read_back(out);
  REQUIRE(made.has_value());
  CHECK(made->model == "t5");
  CHECK(!made->add_space_prefix);
  CHECK(made->remove_extra_whitespaces);
  CHECK(made->character_map == words.character_map);
}

TEST_CASE("special tokens of Phi-3 files swallow the following white space") {
  const vocabulary words = sentencepiece_vocabulary("bpe, prefix True, remove False");
  constexpr token_id unknown = 0, bos = 1, eos = 2;
  const auto ids_of = [&](std::string_view name, std::string_view text) {
    writer out = file_of(words);
    out.set_string("general.name", name);
    const auto made = tokenizer::create(read_back(out).value()).value();
    const std::vector<text_segment> prompt = {{std::string(text), /*special_allowed=*/true}};
    return made.encode(prompt).value();
  };
  for (const auto* name : {"Phi-3 mini 4k instruct", "microsoft_phi3"}) {
    writer out = file_of(words);
    out.set_string("general.name", name);
    const auto strips = read_back(out).value().strips_right;
    const auto holds = [&strips](token_id id) {
      return std::find(strips.begin(), strips.end(), id) != strips.end();
    };
    CHECK((holds(eos) && !holds(bos) && !holds(unknown)));
    CHECK(ids_of(name, "</s> \n\t the fox") == ids_of(name, "</s>the fox"));
    CHECK(ids_of(name, "<s> the") != ids_of(name, "<s>the"));
    CHECK(ids_of(name, "the </s>") != ids_of(name, "the</s>"));
  }
  CHECK(ids_of("Mistral", "</s> the") != ids_of("Mistral", "</s>the"));
}

TEST_CASE("a file of Gemma 4 gives the ids of the same tokenizer.json") {
  const auto goldens = golden("tokenizer_json_goldens.json");
  const auto shape = std::find_if(goldens.begin(), goldens.end(),
                                  [](const auto& each) { return each["name"] == "gemma"; });
  REQUIRE(shape != goldens.end());
  const auto words = vocabulary_from_json((*shape)["tokenizer"], std::nullopt);
  REQUIRE(words.has_value());
  writer out = merged_file_of(*words);
  SUBCASE("as most files") {
    out.set_bool("tokenizer.ggml.add_bos_token", true);
  }
  SUBCASE("as early files") {
    out.set_bool("tokenizer.ggml.add_bos_token", false);
  }
  const auto read = read_back(out);
  REQUIRE(read.has_value());
  CHECK(read->scores.empty());
  const auto made = tokenizer::create(*read).value();
  CHECK(made.adds_bos());
  REQUIRE((*shape)["cases"].size() > 30);
  for (const auto& each : (*shape)["cases"]) {
    CAPTURE(each["text"].get<std::string>());
    const std::vector<text_segment> prompt = {
        {each["text"].get<std::string>(), /*special_allowed=*/true}};
    CHECK(made.encode(prompt).value() == each["ids"].get<std::vector<token_id>>());
  }
}

TEST_CASE("a file of Gemma 4 without merges is rejected by the name of the key") {
  writer out;
  const std::vector<std::string> tokens = {"a", "b"};
  out.set_string("tokenizer.ggml.model", "gemma4").set_strings("tokenizer.ggml.tokens", tokens);
  const auto refused = read_back(out);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::bad_model_file);
  CHECK(refused.error().message.find("tokenizer.ggml.merges") != std::string::npos);
}

TEST_CASE("a SentencePiece file without a table is rejected by the name of the key") {
  const vocabulary words = sentencepiece_vocabulary("bpe, prefix True, remove False");
  writer without_scores;
  without_scores.set_string("tokenizer.ggml.model", "llama")
      .set_strings("tokenizer.ggml.tokens", words.tokens);
  auto refused = read_back(without_scores);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::bad_model_file);
  CHECK(refused.error().message.find("tokenizer.ggml.scores") != std::string::npos);
  writer without_kinds = without_scores;
  without_kinds.set_f32s("tokenizer.ggml.scores", float_scores(words));
  refused = read_back(without_kinds);
  REQUIRE(!refused);
  CHECK(refused.error().message.find("tokenizer.ggml.token_type") != std::string::npos);
}

TEST_CASE("an unknown tokenizer model is rejected by its name") {
  writer out;
  out.set_string("tokenizer.ggml.model", "bert");
  const auto refused = read_back(out);
  REQUIRE(!refused);
  CHECK(refused.error().code == errc::unsupported_model);
  CHECK(refused.error().message.find("'bert'") != std::string::npos);
}
