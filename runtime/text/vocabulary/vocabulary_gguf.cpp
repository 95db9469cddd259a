// The names of GGUF's tokenizer keys, and the defaults of absent keys.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"

#include "runtime/model/gguf/gguf.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace baton::text {

namespace {

// SentencePiece's text with a list of merges, as the tokenizer.json of the same model.
constexpr std::string_view merged_sentencepiece = "gemma4";

result<void> read_merges(const model::gguf_file& file, vocabulary& vocab) {
  auto merges = file.get_strings("tokenizer.ggml.merges");
  if (!merges)
    return merges.error();
  vocab.merges = std::move(*merges);
  return {};
}

result<void> read_scores(const model::gguf_file& file, vocabulary& vocab) {
  const auto scores = file.get_f32s("tokenizer.ggml.scores");
  if (!scores)
    return scores.error();
  vocab.scores.assign(scores->begin(), scores->end());
  return {};
}

result<void> read_tables(const model::gguf_file& file, bool has_merges, vocabulary& vocab) {
  auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (!tokens)
    return tokens.error();
  vocab.tokens = std::move(*tokens);
  if (auto read = has_merges ? read_merges(file, vocab) : read_scores(file, vocab); !read)
    return read;
  // A SentencePiece file must have token types: only they identify byte tokens.
  if (!is_sentencepiece(vocab) && !file.has("tokenizer.ggml.token_type")) {
    vocab.kinds.assign(vocab.tokens.size(), token_kind::normal);
    return {};
  }
  const auto types = file.get_i32s("tokenizer.ggml.token_type");
  if (!types)
    return types.error();
  vocab.kinds.reserve(types->size());
  for (const std::int32_t type : *types) {
    if (type < 0 || type > std::numeric_limits<std::uint8_t>::max())
      return fail(errc::bad_model_file, "tokenizer.ggml.token_type holds {}", type);
    vocab.kinds.push_back(static_cast<token_kind>(type)); // validate() checks its range
  }
  return {};
}

// Reads how a SentencePiece model treats spaces and rewrites text.
result<void> read_normalizer(const model::gguf_file& file, vocabulary& vocab) {
  const auto adds = file.get_bool("tokenizer.ggml.add_space_prefix", vocab.add_space_prefix);
  if (!adds)
    return adds.error();
  vocab.add_space_prefix = *adds;
  const auto removes =
      file.get_bool("tokenizer.ggml.remove_extra_whitespaces", vocab.remove_extra_whitespaces);
  if (!removes)
    return removes.error();
  vocab.remove_extra_whitespaces = *removes;
  constexpr std::string_view map_key = "tokenizer.ggml.precompiled_charsmap";
  if (!file.has(map_key))
    return {};
  const auto bytes = file.get_i32s(map_key);
  if (!bytes)
    return bytes.error();
  for (const std::int32_t byte : *bytes) {
    if (byte < std::numeric_limits<std::int8_t>::min() ||
        byte > std::numeric_limits<std::uint8_t>::max())
      return fail(errc::bad_model_file, "{} holds {}, which is not a byte", map_key, byte);
    vocab.character_map.push_back(static_cast<char>(byte));
  }
  return {};
}

result<void> read_ids(const model::gguf_file& file, vocabulary& vocab) {
  const std::pair<std::string_view, std::optional<token_id>*> keys[] = {
      {"tokenizer.ggml.bos_token_id", &vocab.bos},
      {"tokenizer.ggml.eos_token_id", &vocab.eos},
      {"tokenizer.ggml.eot_token_id", &vocab.eot},
      {"tokenizer.ggml.unknown_token_id", &vocab.unknown},
      {"tokenizer.ggml.padding_token_id", &vocab.padding},
  };
  for (const auto& [key, id] : keys) {
    if (!file.has(key))
      continue;
    const auto value = file.get_u32(key);
    if (!value)
      return value.error();
    if (*value >= vocab.tokens.size())
      return fail(errc::bad_model_file, "{} is {}, outside the vocabulary of {}", key, *value,
                  vocab.tokens.size());
    *id = static_cast<token_id>(*value);
  }
  return {};
}

// Without token types, user text could produce special tokens. So at least the named ones become
// control tokens.
void guard_named_tokens(const model::gguf_file& file, vocabulary& vocab) {
  if (file.has("tokenizer.ggml.token_type"))
    return;
  for (const auto& id : {vocab.bos, vocab.eos, vocab.eot})
    if (id)
      vocab.kinds[static_cast<std::size_t>(*id)] = token_kind::control;
}

// Phi-3's special tokens strip the white space after them. GGUF has no key for it; like llama.cpp,
// this goes by the model's name, with these exceptions.
result<void> read_strips(const model::gguf_file& file, vocabulary& vocab) {
  auto name = file.get_string("general.name", "");
  if (!name)
    return name.error();
  std::transform(name->begin(), name->end(), name->begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (name->find("phi-3") == std::string::npos && name->find("phi3") == std::string::npos)
    return {};
  constexpr std::array<std::string_view, 3> exceptions = {"<unk>", "<s>", "<|endoftext|>"};
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const bool is_exception =
        std::find(exceptions.begin(), exceptions.end(), vocab.tokens[id]) != exceptions.end();
    if ((is_special(vocab.kinds[id]) && !is_exception) || vocab.tokens[id] == "</s>")
      vocab.strips_right.push_back(static_cast<token_id>(id));
  }
  return {};
}

} // namespace

result<std::string> tokenizer_model_of(const model::gguf_file& file) {
  auto name = file.get_string("tokenizer.ggml.model");
  if (!name || *name == merged_sentencepiece)
    return name;
  vocabulary vocab; // without tokens, which is a later error
  vocab.model = *name;
  if (const auto valid = validate(vocab); valid.error().code == errc::unsupported_model)
    return valid.error();
  return name;
}

result<vocabulary> vocabulary_from(const model::gguf_file& file) {
  vocabulary vocab;
  auto name = tokenizer_model_of(file); // reported before missing tables
  if (!name)
    return name.error();
  const bool is_merged = *name == merged_sentencepiece;
  vocab.model = is_merged ? "llama" : std::move(*name);
  if (!is_sentencepiece(vocab)) { // converters write "default" into other files
    auto pre = file.get_string("tokenizer.ggml.pre", "default");
    if (!pre)
      return pre.error();
    vocab.pre = std::move(*pre);
  }
  if (auto read = read_tables(file, is_merged || vocab.model == "gpt2", vocab); !read)
    return read.error();
  if (auto read = read_ids(file, vocab); !read)
    return read.error();
  if (is_sentencepiece(vocab))
    if (auto read = read_normalizer(file, vocab); !read)
      return read.error();
  if (is_merged) {
    vocab.add_space_prefix = false;
    vocab.finds_added_tokens_first = true;
  }
  if (auto read = read_strips(file, vocab); !read)
    return read.error();
  if (file.has("tokenizer.ggml.add_bos_token")) {
    const auto add_bos = file.get_bool("tokenizer.ggml.add_bos_token");
    if (!add_bos)
      return add_bos.error();
    vocab.add_bos = *add_bos;
  }
  if (is_merged) // early files say false; llama.cpp ignores it, too
    vocab.add_bos = true;
  auto source = file.get_string("tokenizer.chat_template", "");
  if (!source)
    return source.error();
  vocab.chat_template = std::move(*source);
  if (auto valid = validate(vocab); !valid)
    return valid.error();
  guard_named_tokens(file, vocab);
  return vocab;
}

} // namespace baton::text
