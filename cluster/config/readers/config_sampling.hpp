// Reads sampling defaults from nodes.toml: [model.sampling].
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/formats/toml_section.hpp"

#include <string>

namespace baton::cluster {

// Reads generation_config and the table `sampling`. `path`: the model's, for messages. Errors:
// bad_config, unknown_key.
result<void> read_sampling(toml_section& model, const std::string& path, const std::string& origin,
                           model_config& to);

} // namespace baton::cluster
