// Reads the models of nodes.toml: [model], [[models]], and the directories that they name.
#pragma once

#include "cluster/config/config.hpp"

#include <toml++/toml.h>

#include <string>

namespace baton::cluster {

// Reads [model] or several [[models]]; neither is needed if there are worker models. Errors:
// bad_config, unknown_key.
result<void> read_models(const toml::table* one, const toml::node* several,
                         const std::string& origin, cluster_config& config);

} // namespace baton::cluster
