// The default model's vocabulary, read from its file: ids compared with Hugging Face's tokenizers.
// Without the file under models/ (see ./up) these cases print a note and end.
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/stream/detokenizer.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <filesystem>

using namespace baton;
using namespace baton::text;
using goldens::golden;

namespace {

using token_ids = std::vector<token_id>;

const tokenizer* smollm2() {
  const std::filesystem::path path =
      std::string(BATON_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    MESSAGE("no model file: ", path.string());
    return nullptr;
  }
  static const tokenizer made = [&] {
    const auto file = model::gguf_file::open(path);
    REQUIRE(file.has_value());
    const auto words = vocabulary_from(*file);
    REQUIRE(words.has_value());
    CHECK(words->pre == "smollm");
    CHECK(words->tokens.size() == 49152);
    CHECK(words->merges.size() == 48900);
    CHECK(words->bos == 1);
    CHECK(words->eos == 2);
    CHECK(words->padding == 2);
    CHECK(words->unknown == 0);
    CHECK(words->add_bos == false);
    CHECK(words->chat_template.find("<|im_start|>") != std::string::npos);
    return tokenizer::create(*words).value();
  }();
  return &made;
}

std::uint64_t fnv(const token_ids& some) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const token_id id : some)
    hash = (hash ^ static_cast<std::uint64_t>(id)) * 0x100000001B3ULL;
  return hash;
}

} // namespace

TEST_CASE("ids of the default model match the reference, text by text") {
  const tokenizer* words = smollm2();
  if (words == nullptr)
    return;
  encode_scratch scratch;
  const auto rows = golden("smollm2_ids.json")["texts"];
  REQUIRE_FALSE(rows.empty());
  for (const auto& row : rows) {
    CAPTURE(row["name"].get<std::string>());
    const auto text = row["text"].get<std::string>();
    const auto expected = row["ids"].get<token_ids>();
    CHECK(words->encode_text(text).value() == expected);
    CHECK(words->encode_text(text, scratch).value() == expected);
    CHECK(words->encode_prompt(text, false, true, scratch).value() == expected); // add_bos is false
    if (row["name"] != "characters without a token")
      CHECK(words->decode(expected, false).value() == text);
  }
}

TEST_CASE("ids of long runs match the reference and take no quadratic time") {
  const tokenizer* words = smollm2();
  if (words == nullptr)
    return;
  const auto rows = golden("smollm2_ids.json")["repeats"];
  REQUIRE_FALSE(rows.empty());
  for (const auto& row : rows) {
    CAPTURE(row["text"].get<std::string>());
    std::string text;
    for (int i = 0; i < row["times"].get<int>(); ++i)
      text += row["text"].get<std::string>();
    const token_ids encoded = words->encode_text(text).value();
    CHECK(encoded.size() == row["count"].get<std::size_t>());
    CHECK(std::to_string(fnv(encoded)) == row["fnv"].get<std::string>());
  }
}

TEST_CASE(
    "rendered conversations have the reference's ids, special tokens only from the template") {
  const tokenizer* words = smollm2();
  if (words == nullptr)
    return;
  const auto rows = golden("smollm2_ids.json")["conversations"];
  REQUIRE_FALSE(rows.empty());
  for (const auto& row : rows) {
    const text_segment segments[] = {{row["head"].get<std::string>(), true},
                                     {row["user"].get<std::string>(), false},
                                     {row["tail"].get<std::string>(), true}};
    CHECK(words->encode(segments).value() == row["ids"].get<token_ids>());
  }
  const auto special = golden("smollm2_ids.json")["all special"];
  const text_segment trusted[] = {{special["text"].get<std::string>(), true}};
  CHECK(words->encode(trusted).value() == special["ids"].get<token_ids>());
}

TEST_CASE("a raw prompt with special tokens has the reference's ids, a plain one has none") {
  const tokenizer* words = smollm2();
  if (words == nullptr)
    return;
  const auto rows = golden("smollm2_ids.json");
  const auto text = rows["all special"]["text"].get<std::string>();
  CHECK(words->encode_prompt(text, true).value() == rows["all special"]["ids"].get<token_ids>());
  const token_ids as_text = words->encode_prompt(text, false).value();
  for (const token_id id : as_text)
    CHECK(!words->is_control(id));
  // As in `tokenizers` and llama.cpp (parse_special).
  const token_ids turn = {1, 4093, 198, 6004, 2};
  CHECK(words->encode_prompt("<|im_start|>user\nhi<|im_end|>", true).value() == turn);
}

TEST_CASE("no user text yields one of the default model's control tokens") {
  const tokenizer* words = smollm2();
  if (words == nullptr)
    return;
  for (token_id id = 0; id < 17; ++id) {
    REQUIRE(words->is_control(id));
    for (const std::string around : {"", " ", "x", "\n", "<|"}) {
      const std::string text = around + std::string(words->piece(id)) + around;
      const token_ids encoded = words->encode_text(text).value();
      for (const token_id got : encoded)
        CHECK(!words->is_control(got));
      CHECK(words->decode(encoded, true).value() == text);
    }
  }
  CHECK(token_ids(words->end_ids().begin(), words->end_ids().end()) == token_ids{0, 2});
}

TEST_CASE("every id of the default model decodes alone, and all of them in one stream") {
  const tokenizer* words = smollm2();
  if (words == nullptr)
    return;
  detokenizer stream(*words, false);
  token_ids all;
  int empty = 0;
  std::string text;
  for (token_id id = 0; id < static_cast<token_id>(words->size()); ++id) {
    empty += words->piece(id).empty() ? 1 : 0;
    all.push_back(id);
    stream.push(id, text);
  }
  CHECK(empty == 0);
  stream.finish(text);
  CHECK(text == words->decode(all, false).value());
}
