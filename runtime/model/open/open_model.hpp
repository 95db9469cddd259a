// Opens a model in either of its forms on disk.
#pragma once

#include "runtime/model/model_file.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <memory>

namespace baton::model {

// A directory is read as a checkpoint, anything else as GGUF. Errors: as their open().
result<std::unique_ptr<model_file>> open_model(const std::filesystem::path& path);

} // namespace baton::model
