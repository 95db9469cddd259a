// Reads the vocabulary of a model directory as written by Hugging Face's libraries: tokenizer.json,
// and, if present, tokenizer_config.json, generation_config.json, chat_template.jinja and
// config.json.
#pragma once

#include "runtime/model/json_file.hpp"
#include "runtime/text/vocabulary/vocabulary.hpp"

#include <filesystem>

namespace baton::text {

// Errors: io_failed, bad_model_file, unsupported_model (names the file and the unsupported
// feature).
result<vocabulary> vocabulary_from_directory(const std::filesystem::path& directory);

// Only tokenizer.json: tokens, merges and text steps. Ids from `id_end` on, if given, have no row
// in the model: added tokens there are skipped. Errors: as above.
result<vocabulary> vocabulary_from_json(const model::json& tokenizer,
                                        std::optional<std::size_t> id_end = {});

// Reads the normalizer, pre_tokenizer, post_processor and decoder. Requires: tokens and merges are
// read. Errors: unsupported_model, bad_model_file.
result<void> read_text_steps(const model::json& tokenizer, vocabulary& vocab);
// Whether tokens are written in the byte alphabet.
bool is_byte_level(const model::json& tokenizer);

// The id of the token with this text. Errors: bad_model_file (names `what`).
result<token_id> id_of_token(const vocabulary& vocab, std::string_view text, std::string_view what);

} // namespace baton::text
