// What the tables of a nodes.toml say of one another. Each error is bad_config, with the file and
// the key. Pure.
#pragma once

#include "cluster/config.hpp"

namespace baton::cluster {

// No other model, of whatever kind, has a name that is an alias.
result<void> check_aliases(const std::string& origin, const cluster_config& config,
                           const std::string& path);
// Something is to be served, and devices are for LLMs.
result<void> check_models(const std::string& origin, const cluster_config& config, bool has_nodes);

} // namespace baton::cluster
