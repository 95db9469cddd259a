#include "runtime/text/tokenizer/vocabulary_file.hpp"

#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/bpe/vocabulary_checkpoint.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"

namespace baton::text {

result<vocabulary> open_vocabulary(const std::filesystem::path& model) {
  std::error_code ignored;
  if (std::filesystem::is_directory(model, ignored))
    return vocabulary_from_directory(model);
  const auto file = model::gguf_file::open(model);
  return file ? vocabulary_from(*file) : file.error();
}

} // namespace baton::text
