// [model_repository] of nodes.toml: a model repository of Triton that is served as it is.
#pragma once

#include "cluster/config.hpp"
#include "cluster/toml_section.hpp"

namespace baton::cluster {

// `node`: the table, or null. Errors: bad_config, unknown_key.
result<void> read_repository(const toml::node* node, const std::string& origin,
                             cluster_config& config);

} // namespace baton::cluster
