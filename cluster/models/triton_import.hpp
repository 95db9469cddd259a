// A model repository of Triton as our nodes.toml: models of the Python backend, of ONNX Runtime and
// of PyTorch become [[workers]], one of the vLLM backend the [model], several [[models]]. Names and
// meanings:
// https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto and
// .../server/blob/main/docs/user_guide/model_configuration.md. Pure.
#pragma once

#include "cluster/config/imported_config.hpp"
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
  std::vector<std::uint32_t> versions; // directories with a number for a name; the newest is served
  std::string engine{};                // model.json of that version; empty: it has none
  int completed_batch = 0; // max_batch_size that config.pbtxt does not say (triton_completion.hpp)
  std::uint32_t gpus = 0;  // of this machine
};

// `model` and `name`: for the path and name of an LLM beside them; empty where one is vLLM's, or
// none is wanted. Errors: bad_config (a file is no config.pbtxt, a value is none of those that
// there are, nothing of it can be served, or `model` or `name` is for one of several LLMs; names
// the model).
result<imported_config> import_triton(std::span<const triton_model> models,
                                      const std::string& model, const std::string& name);
// Of those of the vLLM backend alone, the [model] or [[models]] tables and nothing else: what a
// served repository has no place for. Errors: as above.
result<imported_config> import_triton_llms(std::span<const triton_model> models);
// One model alone, as its [[workers]] table and nothing else. Errors: bad_config, also of a model
// that no worker serves: why it is left out.
result<imported_config> import_triton_worker(const triton_model& of);

} // namespace baton::cluster
