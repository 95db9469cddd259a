// Translates TorchServe's model-config.yaml to nodes.toml. Names and meanings:
// https://pytorch.org/serve/large_model_inference.html and .../configuration.html. Pure.
#pragma once

#include "cluster/config/imported/imported_config.hpp"
#include "cluster/models/torchserve/torchserve_properties.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::cluster {

// `model` and `name`: for model.path and model.name, which such a file lacks. Workers become
// replicas and take devices in rotation, as TorchServe's do. `server`: listeners, and defaults for
// missing settings. `gpus`: of the machine that will serve, as import_machine. Errors: bad_config
// (malformed YAML, an invalid value, or keys that exclude one another; the message names the key).
result<imported_config> import_torchserve(std::string_view yaml, const std::string& model,
                                          const std::string& name,
                                          const torchserve_properties& server = {},
                                          std::uint32_t gpus = 0);

// A model-config.yaml of a model with a handler, which becomes one of the [[workers]] beside the
// LLM. import_torchserve_server translates config.properties alone.
struct torchserve_handler {
  std::string file;   // a Python file
  std::string config; // the model-config.yaml, which the handler reads too
  std::string name;   // of the worker model
};
result<imported_config> import_torchserve_handler(std::string_view yaml,
                                                  const torchserve_handler& handler,
                                                  const std::string& model, const std::string& name,
                                                  const torchserve_properties& server = {});
imported_config import_torchserve_server(const std::string& model, const std::string& name,
                                         const torchserve_properties& server);

} // namespace baton::cluster
