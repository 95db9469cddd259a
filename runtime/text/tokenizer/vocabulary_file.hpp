// Opens a model's vocabulary in either disk format. Called by the head and by inspection.
#pragma once

#include "runtime/text/vocabulary/vocabulary.hpp"

#include <filesystem>

namespace baton::text {

// A directory is read as a checkpoint, anything else as GGUF. Errors: as vocabulary_from and
// vocabulary_from_directory.
result<vocabulary> open_vocabulary(const std::filesystem::path& model);

} // namespace baton::text
