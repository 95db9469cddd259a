// Completes a missing or short config.pbtxt as Triton does. The backend follows from the model
// file. An ONNX file also gives the inputs, the outputs, and whether it takes batches.
// https://github.com/triton-inference-server/server/blob/main/docs/user_guide/
// model_configuration.md#auto-generated-model-configuration
#pragma once

#include "cluster/models/triton/triton_import.hpp"

#include <filesystem>

namespace baton::cluster {

// Batch size if the model takes any number of rows and its configuration sets none: Triton's
// default-max-batch-size.
inline constexpr int completed_batch_size = 4;

// Whether default_model_filename is in the version's directory or below it.
bool stays_below(const std::filesystem::path& file);

// Whether a configuration can be made for a directory that has no config.pbtxt.
bool is_completable(const std::filesystem::path& directory);

// Adds to `model.config`; `directory` is that of the served version. Existing values stay, and a
// configuration with inputs and outputs is complete. Unlike Triton, which cannot distinguish
// `max_batch_size: 0` from an absent value, this keeps an explicit 0. Errors: bad_config (the
// backend is unknown, the file does not declare a value or contradicts it), io_failed.
result<void> complete(triton_model& model, const std::filesystem::path& directory);

} // namespace baton::cluster
