// Reads the tokenizer.* keys of a GGUF file into a vocabulary. Called once, when a head loads its
// model.
#pragma once

#include "runtime/text/vocabulary/vocabulary.hpp"

#include <string>

namespace baton::model {
class gguf_file;
}

namespace baton::text {

// The key tokenizer.ggml.model. Errors: bad_model_file (it is absent), unsupported_model.
result<std::string> tokenizer_model_of(const model::gguf_file& file);
// The result has passed validate(). Errors: bad_model_file, unsupported_model (naming the key).
result<vocabulary> vocabulary_from(const model::gguf_file& file);

} // namespace baton::text
