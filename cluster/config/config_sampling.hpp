// Defaults of sampling in nodes.toml: [model.sampling].
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/config/toml_section.hpp"

#include <string>

namespace baton::cluster {

// generation_config and the table `sampling` of a model. `path`: of the model, in messages. Errors:
// bad_config, unknown_key.
result<void> read_sampling(toml_section& model, const std::string& path, const std::string& origin,
                           model_config& to);

} // namespace baton::cluster
