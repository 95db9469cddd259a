// Translates a Triton model repository to nodes.toml. Models of the Python, ONNX Runtime and
// PyTorch backends become [[workers]]; one of the vLLM backend becomes [model], several become
// [[models]]. Names and meanings:
// https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto and
// .../server/blob/main/docs/user_guide/model_configuration.md. Pure.
#pragma once

#include "cluster/config/imported/imported_config.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baton::cluster {

// One directory of a repository.
struct triton_model {
  std::string directory;               // as a worker's command can name it
  std::string config;                  // config.pbtxt
  std::vector<std::uint32_t> versions; // numeric directory names; the newest is served
  std::string engine{};                // model.json of that version; empty: none
  int completed_batch = 0; // max_batch_size if config.pbtxt has none (triton_completion.hpp)
  std::uint32_t gpus = 0;  // of this machine
  // Identifies the content of config.pbtxt and of the version's files. 0: not known.
  std::uint64_t digest = 0;
  std::vector<std::string> notes{}; // about its completion
};

// `model` and `name`: path and name of an LLM to serve beside the workers; empty if there is none
// or the vLLM backend has one. Errors: bad_config (not a config.pbtxt, an invalid value, no model
// that can be served, or `model` or `name` given with several LLMs; the message names the model).
result<imported_config> import_triton(std::span<const triton_model> models,
                                      const std::string& model, const std::string& name);
// Only the [model] or [[models]] tables of vLLM models, for a repository that is served directly.
// `max_tokens`: for requests without one, unless a model sets its own. Errors: as above.
result<imported_config> import_triton_llms(std::span<const triton_model> models,
                                           std::optional<std::uint32_t> max_tokens = std::nullopt);
// The [[workers]] table of one model. Errors: bad_config, also for a model that no worker serves.
result<imported_config> import_triton_worker(const triton_model& of);

} // namespace baton::cluster
