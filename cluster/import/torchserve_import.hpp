// TorchServe's model-config.yaml as our nodes.toml: what its users bring. Names and meanings:
// https://pytorch.org/serve/large_model_inference.html and .../configuration.html. Pure.
#pragma once

#include "cluster/config/imported_config.hpp"
#include "cluster/models/torchserve_properties.hpp"
#include "schema/result.hpp"

#include <string>
#include <string_view>

namespace baton::cluster {

// `model` and `name`: for model.path and model.name, which such a file does not have. Workers are
// replicas, and take devices in turn, as TorchServe's do. `server`: where it listens, and what
// holds where the file says nothing. Errors: bad_config (it is no YAML, a
// value is none of those that there are, keys exclude one another; names the key).
result<imported_config> import_torchserve(std::string_view yaml, const std::string& model,
                                          const std::string& name,
                                          const torchserve_properties& server = {});

// A model-config.yaml of a model that has a handler, which is one of the [[workers]] beside the
// LLM; config.properties alone, with its store.
struct torchserve_handler {
  std::string file;   // of Python's
  std::string config; // the model-config.yaml, which it reads as well
  std::string name;   // of the worker model
};
result<imported_config> import_torchserve_handler(std::string_view yaml,
                                                  const torchserve_handler& handler,
                                                  const std::string& model, const std::string& name,
                                                  const torchserve_properties& server = {});
imported_config import_torchserve_server(const std::string& model, const std::string& name,
                                         const torchserve_properties& server);

} // namespace baton::cluster
