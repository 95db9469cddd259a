// Vocabularies from tokenizer.json and the files beside it: ids compared with Hugging Face's
// `tokenizers` (tests/data/text/make_tokenizer_json_goldens.py), and errors by name.
#include "runtime/text/bpe/vocabulary_checkpoint.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/tokenizer/vocabulary_file.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"
#include "tests/unit/text/goldens.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace baton;
using namespace baton::text;
using baton::testing::scratch_directory;
using baton::testing::write_file;
using model::json;

namespace {

const json& json_goldens() {
  static const json data = text::goldens::golden("tokenizer_json_goldens.json");
  return data;
}

json tokenizer_of(const std::string& name) {
  for (const auto& shape : json_goldens())
    if (shape["name"] == name)
      return shape["tokenizer"];
  return {};
}

// A model directory with these files.
struct files {
  json tokenizer = tokenizer_of("llama 3");
  json settings = json::object();
  json generation = json::object();
  json config = json::object();
  std::string chat_template;

  result<vocabulary> read() const {
    const scratch_directory scratch;
    write_file(scratch / "tokenizer.json", tokenizer.dump());
    write_file(scratch / "tokenizer_config.json", settings.dump());
    write_file(scratch / "generation_config.json", generation.dump());
    write_file(scratch / "config.json", config.dump());
    if (!chat_template.empty())
      write_file(scratch / "chat_template.jinja", chat_template);
    return open_vocabulary(scratch.path());
  }
};

token_id id_in_json(const vocabulary& words, std::string_view text) {
  return id_of_token(words, text, "token").value();
}

std::string refusal(const files& f) {
  const auto words = f.read();
  if (!words)
    return words.error().message;
  const auto made = tokenizer::create(*words);
  return made ? "" : made.error().message;
}

} // namespace

TEST_CASE("ids by tokenizer.json match Hugging Face's tokenizers") {
  REQUIRE(json_goldens().size() >= 20);
  for (const auto& shape : json_goldens()) {
    CAPTURE(shape["name"].get<std::string>());
    const auto words = vocabulary_from_json(shape["tokenizer"]);
    REQUIRE_MESSAGE(words, words.error().message);
    const auto made = tokenizer::create(*words);
    REQUIRE_MESSAGE(made, made.error().message);
    CHECK(made->adds_bos() == shape["adds_bos"].get<bool>());
    encode_scratch scratch;
    for (int round = 0; round < 2; ++round) // the second time from the cache
      for (const auto& each : shape["cases"]) {
        const auto text = each["text"].get<std::string>();
        CAPTURE(text);
        const std::vector<text_segment> prompt = {{text, /*special_allowed=*/true}};
        const auto ids = each["ids"].get<std::vector<token_id>>();
        CHECK(made->encode(prompt, scratch).value() == ids);
        const bool has_unknown = std::find(ids.begin(), ids.end(), words->unknown) != ids.end();
        if (each.contains("decoded") && !has_unknown) // the reference has it in no text
          CHECK(made->decode(ids, true).value() == each["decoded"].get<std::string>());
      }
  }
}

TEST_CASE("user text yields no special token of tokenizer.json") {
  for (const auto& shape : json_goldens()) {
    CAPTURE(shape["name"].get<std::string>());
    const auto words = vocabulary_from_json(shape["tokenizer"]).value();
    const auto made = tokenizer::create(words).value();
    const auto ids = made.encode_text("<|user|>the fox<|end|><s>").value();
    for (const token_id id : ids)
      CHECK((!made.is_control(id) || id == words.unknown));
  }
}

using named_tokens = std::vector<std::pair<std::string, std::string>>;

TEST_CASE("the files beside tokenizer.json define end and begin tokens and the chat template") {
  files f;
  f.settings = {{"bos_token", {{"content", "<s>"}, {"lstrip", false}}},
                {"eos_token", "<|end|>"},
                {"pad_token", "no token at all"},
                {"chat_template", "from the config"}};
  const auto first = f.read().value();
  CHECK(first.bos == id_in_json(first, "<s>"));
  CHECK(first.eos == id_in_json(first, "<|end|>"));
  CHECK(first.add_bos == true); // from the post_processor
  CHECK(first.chat_template == "from the config");
  CHECK(first.chat_template_failure.empty());
  CHECK(first.named_tokens == named_tokens{{"pad_token", "no token at all"}});
  CHECK(first.ends.empty());

  // A list of templates is not the same as none.
  f.settings["chat_template"] = {{{"name", "tool_use"}, {"template", "tools"}},
                                 {{"name", "rag"}, {"template", "r"}}};
  const auto other = f.read().value();
  CHECK(other.chat_template.empty());
  CHECK(other.chat_template_failure == "tokenizer_config.json: 'chat_template' has 'tool_use', "
                                       "'rag', and no text named 'default'");
  f.settings["chat_template"] = 5;
  CHECK_FALSE(f.read().value().chat_template_failure.empty());
  f.settings["chat_template"] = nullptr;
  CHECK(f.read().value().chat_template_failure.empty());

  f.settings["chat_template"] = {{{"name", "tool_use"}, {"template", "tools"}},
                                 {{"name", "default"}, {"template", "plain"}}};
  f.settings["add_bos_token"] = false;
  f.generation["eos_token_id"] = {id_in_json(first, "</s>"), id_in_json(first, "<|end|>")};
  f.config["eos_token_id"] = 3;
  const auto second = f.read().value();
  CHECK(second.chat_template == "plain");
  CHECK(second.add_bos == false);
  CHECK(second.ends ==
        std::vector<token_id>{id_in_json(first, "</s>"), id_in_json(first, "<|end|>")});
  const auto made = tokenizer::create(second).value();
  CHECK(made.end_ids().size() == 2);

  f.chat_template = "from the file";
  f.generation = json::object();
  f.settings.erase("eos_token");
  const auto third = f.read().value();
  CHECK(third.chat_template == "from the file");
  CHECK(third.eos == 3);
}

TEST_CASE("tokens without an embedding row are dropped, rows without a token stay empty") {
  files f;
  const auto all = f.read().value();
  const auto last = id_in_json(all, "<|end|>");
  f.config["vocab_size"] = last; // as Gemma 3's text model, whose tokenizer knows images
  const auto fewer = f.read().value();
  CHECK(fewer.tokens.size() == static_cast<std::size_t>(last));
  CHECK(tokenizer::create(fewer).has_value());
  f.config["vocab_size"] = 1000;
  const auto more = f.read().value();
  CHECK(more.tokens.size() == 1000);
  CHECK(more.kinds.back() == token_kind::unused);
  CHECK(tokenizer::create(more).value().piece(999).empty());
  f.config["vocab_size"] = 100; // an ordinary token has no row
  CHECK(refusal(f).find("100") != std::string::npos);
}

TEST_CASE("tokenizer.json is rejected by the unsupported step") {
  struct change {
    std::string shape;
    std::function<void(json&)> apply;
    std::string mentions;
  };
  const auto set = [](const char* path, json value) {
    return [path, value](json& t) { t[json::json_pointer(path)] = value; };
  };
  const json token = {{"id", 400}, {"content", "<s>"}, {"special", true}};
  const std::vector<change> changes = {
      {"llama 3", [](json& t) { t.erase("model"); }, "no model"},
      {"llama 3", set("/model/type", "WordPiece"), "'WordPiece'"},
      {"llama 3", set("/model/type", "Unigram"), "Unigram model with ByteLevel"},
      {"llama 3", set("/model/dropout", 0.1), "dropout"},
      {"llama 3", set("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix '</w>'"},
      {"llama 3", set("/model/byte_fallback", true), "byte_fallback"},
      {"llama 3", set("/model/vocab", nullptr), "no vocab"},
      {"llama 3", set("/model/vocab/new", -1), "id"},
      {"llama 3", set("/model/vocab/new", 7), "two tokens have the id 7"},
      {"llama 3", set("/model/vocab/new", 4000000000), "id"},
      {"llama 3", set("/model/merges", nullptr), "no merges"},
      {"llama 3", set("/model/merges/0", "abc"), "merge 0"},
      {"llama 3", set("/model/merges/0", {"a", "b", "c"}), "merge 0"},
      {"llama 3", set("/model/merges/0", {"a", "qqqq"}), "merge 0"},
      {"llama 2", set("/model/merges/0", {"a", "qqqq"}), "merge 0"},
      {"llama 3", set("/normalizer", {{"type", "BertNormalizer"}}), "'BertNormalizer'"},
      {"llama 2", set("/normalizer", {{"type", "Nmt"}}), "'Nmt'"},
      {"llama 2", set("/normalizer", nullptr), "no step replaces spaces"},
      {"llama 3", set("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+"), "\\w+"},
      {"llama 3", set("/pre_tokenizer/pretokenizers/0/behavior", "MergedWithNext"),
       "MergedWithNext"},
      {"llama 3", set("/pre_tokenizer/pretokenizers/0/type", "Whitespace"), "'Whitespace'"},
      {"llama 3", set("/pre_tokenizer/pretokenizers/1/add_prefix_space", true), "add_prefix_space"},
      {"qwen 2", set("/model/ignore_merges", true), "ignore_merges: true"},
      {"mistral 0.3", set("/pre_tokenizer/prepend_scheme", "last"), "prepend_scheme last"},
      {"mistral 0.3", set("/pre_tokenizer/replacement", "_"), "replacement '_'"},
      {"t5", set("/pre_tokenizer/pretokenizers/1/prepend_scheme", "first"), "prepend_scheme first"},
      {"t5", set("/pre_tokenizer/pretokenizers/0/type", "Punctuation"), "'Punctuation'"},
      {"t5", set("/pre_tokenizer/pretokenizers/1/type", "WhitespaceSplit"), "'WhitespaceSplit'"},
      {"t5", set("/normalizer/precompiled_charsmap", "A==="), "precompiled_charsmap is not base64"},
      {"t5", set("/normalizer/precompiled_charsmap", "AAAA"), "precompiled_charsmap"},
      {"t5", set("/model/vocab", json::object()), "vocab is not a list"},
      {"t5", set("/model/vocab/7", {"a", "b"}), "token 7"},
      {"t5", set("/model/vocab/7", {"a", 1, 2}), "token 7"},
      {"t5", set("/model/unk_id", 100000), "unk_id"},
      {"t5", set("/model/unk_id", nullptr), "unknown token"},
      {"t5", set("/decoder/type", "CTC"), "'CTC'"},
      {"unigram, converted", set("/normalizer/normalizers/2/pattern/Regex", "\\d"),
       "pattern '\\d'"},
      {"unigram, converted", set("/normalizer/normalizers/2/content", std::string(17, 'x')),
       "content"},
      {"unigram with bytes", set("/decoder/decoders/3/stop", 1), "'Strip'"},
      {"unigram with bytes", set("/normalizer/normalizers/0/prepend", std::string(17, 'x')),
       "'Prepend'"},
      {"llama 2", set("/post_processor/type", "BertProcessing"), "'BertProcessing'"},
      {"llama 2",
       [](json& t) {
         t["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "</s>"}}}});
       },
       "'</s>'"},
      {"llama 2", set("/decoder/decoders/0/content", "x"), "'Replace'"},
      {"llama 3", set("/decoder/type", "WordPiece"), "'WordPiece'"},
      {"llama 3", set("/added_tokens", json::array({json{{"id", 400}}})), "added token"},
      {"llama 3",
       [&](json& t) {
         t["added_tokens"] = json::array({token});
         t["added_tokens"][0]["single_word"] = true;
       },
       "single_word"},
      {"llama 3", set("/added_tokens/0/id", 5), "id of"},
      {"llama 2", set("/model/unk_token", "nowhere"), "'nowhere' is not a token"},
  };
  for (const auto& each : changes) {
    files f;
    f.tokenizer = tokenizer_of(each.shape);
    each.apply(f.tokenizer);
    const auto message = refusal(f);
    CAPTURE(each.shape);
    CAPTURE(each.mentions);
    CAPTURE(message);
    CHECK(message.find(each.mentions) != std::string::npos);
  }
}

TEST_CASE("names of unknown tokens are rejected") {
  files f;
  f.settings["eos_token"] = "<nowhere>";
  CHECK(refusal(f).find("eos_token '<nowhere>' is not a token") != std::string::npos);
  f.settings = json::object();
  f.generation["eos_token_id"] = {1, 4000000000};
  CHECK(refusal(f).find("generation_config.json: eos_token_id") != std::string::npos);
  f.generation["eos_token_id"] = "two";
  CHECK(refusal(f).find("eos_token_id") != std::string::npos);
}

TEST_CASE("no part of tokenizer.json with another type causes a crash") {
  const std::vector<json> values = {
      nullptr, 7,  -1, "text", json::array(), json::object(), json::array({1, "a", nullptr}),
      true,    0.5};
  for (const auto* shape : {"llama 3", "mistral 0.3", "unigram, converted"}) {
    const auto whole = tokenizer_of(shape);
    const auto flat = whole.flatten();
    std::size_t at = 0;
    for (const auto& [path, value] : flat.items()) {
      const bool is_table = path.starts_with("/model/vocab") || path.starts_with("/model/merges");
      if (is_table && ++at % 50 != 0) // samples long tables
        continue;
      for (auto pointer = json::json_pointer(path); !pointer.empty();
           pointer = pointer.parent_pointer()) {
        auto changed = whole;
        changed[pointer] = values[at++ % values.size()];
        if (const auto words = vocabulary_from_json(changed))
          static_cast<void>(tokenizer::create(*words).has_value());
      }
    }
  }
}
