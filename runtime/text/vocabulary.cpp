// Checks a vocabulary before anything is built from it.
#include "runtime/text/vocabulary.hpp"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace baton::text {

namespace {

result<void> validate_tables(const vocabulary& words) {
  namespace limits = vocabulary_limits;
  if (words.tokens.empty())
    return fail(errc::bad_model_file, "the vocabulary has no tokens");
  if (words.tokens.size() > limits::tokens_max)
    return fail(errc::bad_model_file, "the vocabulary has {} tokens, more than {}",
                words.tokens.size(), limits::tokens_max);
  if (words.merges.size() > limits::merges_max)
    return fail(errc::bad_model_file, "the vocabulary has {} merges, more than {}",
                words.merges.size(), limits::merges_max);
  if (words.kinds.size() != words.tokens.size())
    return fail(errc::bad_model_file, "the vocabulary has {} tokens but {} token types",
                words.tokens.size(), words.kinds.size());
  if (words.chat_template.size() > limits::chat_template_bytes_max)
    return fail(errc::bad_model_file, "the chat template has {} bytes, more than {}",
                words.chat_template.size(), limits::chat_template_bytes_max);
  return {};
}

result<void> validate_scores(const vocabulary& words) {
  const bool has_merges = words.model == "llama" && !words.merges.empty();
  if (!is_sentencepiece(words) || (has_merges && words.scores.empty()))
    return {};
  if (words.scores.size() != words.tokens.size())
    return fail(errc::bad_model_file, "the vocabulary has {} tokens but {} scores",
                words.tokens.size(), words.scores.size());
  for (std::size_t id = 0; id < words.scores.size(); ++id)
    if (!std::isfinite(words.scores[id]))
      return fail(errc::bad_model_file, "the score of token {} is not a finite number", id);
  return {};
}

result<void> validate_tokens(const vocabulary& words) {
  for (std::size_t id = 0; id < words.tokens.size(); ++id) {
    if (words.tokens[id].size() > vocabulary_limits::token_bytes_max)
      return fail(errc::bad_model_file, "token {} has {} bytes, more than {}", id,
                  words.tokens[id].size(), vocabulary_limits::token_bytes_max);
    if (words.kinds[id] < token_kind::normal || words.kinds[id] > token_kind::byte)
      return fail(errc::bad_model_file, "token {} has the unknown token type {}", id,
                  static_cast<unsigned>(words.kinds[id]));
  }
  return {};
}

} // namespace

bool is_white_space(std::string_view text) noexcept {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

bool is_sentencepiece(const vocabulary& words) noexcept {
  return words.model == "llama" || words.model == "t5";
}

result<void> validate(const vocabulary& words) {
  if (words.model != "gpt2" && !is_sentencepiece(words))
    return fail(errc::unsupported_model,
                "the tokenizer model '{}' is not supported; byte-level BPE ('gpt2') and "
                "SentencePiece ('llama', 't5') are",
                words.model);
  if (auto checked = validate_tables(words); !checked)
    return checked;
  if (auto checked = validate_scores(words); !checked)
    return checked;
  if (auto checked = validate_tokens(words); !checked)
    return checked;
  const std::array<std::pair<std::string_view, std::optional<token_id>>, 5> named = {{
      {"bos", words.bos},
      {"eos", words.eos},
      {"eot", words.eot},
      {"unknown", words.unknown},
      {"padding", words.padding},
  }};
  for (const auto* list : {&words.ends, &words.strips_left, &words.strips_right})
    for (const token_id id : *list)
      if (id < 0 || static_cast<std::size_t>(id) >= words.tokens.size())
        return fail(errc::bad_model_file, "the token id {} is outside the vocabulary of {}", id,
                    words.tokens.size());
  for (const auto& [name, id] : named)
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= words.tokens.size()))
      return fail(errc::bad_model_file, "the {} token id {} is outside the vocabulary of {}", name,
                  *id, words.tokens.size());
  return {};
}

} // namespace baton::text
