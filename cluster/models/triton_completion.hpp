// What Triton finds out of a model whose config.pbtxt is missing or says little: its backend by its
// file; of an ONNX file inputs, outputs, and whether it takes batches.
// https://github.com/triton-inference-server/server/blob/main/docs/user_guide/
// model_configuration.md#auto-generated-model-configuration
#pragma once

#include "cluster/models/triton_import.hpp"

#include <filesystem>

namespace baton::cluster {

// Rows of a batch where the model takes any number and its configuration says none: Triton's
// default-max-batch-size.
inline constexpr int completed_batch_size = 4;

// Whether a directory without a config.pbtxt holds a model that one can be made of.
bool is_completable(const std::filesystem::path& directory);

// Adds to `model.config`; `directory` is that of the version that is served. What is said already
// stays, and a configuration with inputs and outputs is complete. Differs from Triton, which cannot
// tell `max_batch_size: 0` from none: where it is written, it stays. Errors: bad_config (nothing
// says what it is, its file does not say it, or contradicts what the configuration says),
// io_failed.
result<void> complete(triton_model& model, const std::filesystem::path& directory);

} // namespace baton::cluster
