// TorchServe's model-config.yaml as our nodes.toml: what its users bring. Names and meanings:
// https://pytorch.org/serve/large_model_inference.html and .../configuration.html. Pure.
#pragma once

#include "cluster/imported_config.hpp"
#include "cluster/torchserve_properties.hpp"
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

} // namespace baton::cluster
