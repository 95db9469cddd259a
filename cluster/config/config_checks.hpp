// What the tables of a nodes.toml say of one another. Each error is bad_config, with the file and
// the key. Pure.
#pragma once

#include "cluster/config/config.hpp"

#include <string_view>

namespace baton::cluster {

// Names as people write them for models elsewhere: "Qwen/Qwen2.5-1.5B-Instruct", "gpt-4o:latest".
bool is_alias(std::string_view text) noexcept;
// No other model, of whatever kind, has a name that is an alias.
result<void> check_aliases(const std::string& origin, const cluster_config& config,
                           const std::string& path);
// Something is to be served, and devices are for LLMs.
result<void> check_models(const std::string& origin, const cluster_config& config, bool has_nodes);

} // namespace baton::cluster
