// Checks a vocabulary before anything is built from it.
#include "runtime/text/vocabulary/vocabulary.hpp"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace baton::text {

namespace {

result<void> validate_tables(const vocabulary& vocab) {
  namespace limits = vocabulary_limits;
  if (vocab.tokens.empty())
    return fail(errc::bad_model_file, "the vocabulary has no tokens");
  if (vocab.tokens.size() > limits::tokens_max)
    return fail(errc::bad_model_file, "the vocabulary has {} tokens, more than {}",
                vocab.tokens.size(), limits::tokens_max);
  if (vocab.merges.size() > limits::merges_max)
    return fail(errc::bad_model_file, "the vocabulary has {} merges, more than {}",
                vocab.merges.size(), limits::merges_max);
  if (vocab.kinds.size() != vocab.tokens.size())
    return fail(errc::bad_model_file, "the vocabulary has {} tokens but {} token types",
                vocab.tokens.size(), vocab.kinds.size());
  if (vocab.chat_template.size() > limits::chat_template_bytes_max)
    return fail(errc::bad_model_file, "the chat template has {} bytes, more than {}",
                vocab.chat_template.size(), limits::chat_template_bytes_max);
  return {};
}

result<void> validate_scores(const vocabulary& vocab) {
  const bool has_merges = vocab.model == "llama" && !vocab.merges.empty();
  if (!is_sentencepiece(vocab) || (has_merges && vocab.scores.empty()))
    return {};
  if (vocab.scores.size() != vocab.tokens.size())
    return fail(errc::bad_model_file, "the vocabulary has {} tokens but {} scores",
                vocab.tokens.size(), vocab.scores.size());
  for (std::size_t id = 0; id < vocab.scores.size(); ++id)
    if (!std::isfinite(vocab.scores[id]))
      return fail(errc::bad_model_file, "the score of token {} is not a finite number", id);
  return {};
}

result<void> validate_tokens(const vocabulary& vocab) {
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.tokens[id].size() > vocabulary_limits::token_bytes_max)
      return fail(errc::bad_model_file, "token {} has {} bytes, more than {}", id,
                  vocab.tokens[id].size(), vocabulary_limits::token_bytes_max);
    if (vocab.kinds[id] < token_kind::normal || vocab.kinds[id] > token_kind::byte)
      return fail(errc::bad_model_file, "token {} has the unknown token type {}", id,
                  static_cast<unsigned>(vocab.kinds[id]));
  }
  return {};
}

} // namespace

bool is_white_space(std::string_view text) noexcept {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

bool is_sentencepiece(const vocabulary& vocab) noexcept {
  return vocab.model == "llama" || vocab.model == "t5";
}

result<void> validate(const vocabulary& vocab) {
  if (vocab.model != "gpt2" && !is_sentencepiece(vocab))
    return fail(errc::unsupported_model,
                "the tokenizer model '{}' is not supported; byte-level BPE ('gpt2') and "
                "SentencePiece ('llama', 't5') are",
                vocab.model);
  if (auto checked = validate_tables(vocab); !checked)
    return checked;
  if (auto checked = validate_scores(vocab); !checked)
    return checked;
  if (auto checked = validate_tokens(vocab); !checked)
    return checked;
  const std::array<std::pair<std::string_view, std::optional<token_id>>, 5> named = {{
      {"bos", vocab.bos},
      {"eos", vocab.eos},
      {"eot", vocab.eot},
      {"unknown", vocab.unknown},
      {"padding", vocab.padding},
  }};
  for (const auto* list : {&vocab.ends, &vocab.strips_left, &vocab.strips_right})
    for (const token_id id : *list)
      if (id < 0 || static_cast<std::size_t>(id) >= vocab.tokens.size())
        return fail(errc::bad_model_file, "the token id {} is outside the vocabulary of {}", id,
                    vocab.tokens.size());
  for (const auto& [name, id] : named)
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= vocab.tokens.size()))
      return fail(errc::bad_model_file, "the {} token id {} is outside the vocabulary of {}", name,
                  *id, vocab.tokens.size());
  return {};
}

} // namespace baton::text
