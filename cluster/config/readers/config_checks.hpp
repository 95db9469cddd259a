// Consistency checks between tables of nodes.toml. Errors are bad_config, with the file and the
// key. Pure.
#pragma once

#include "cluster/config/config.hpp"

#include <string_view>

namespace baton::cluster {

// Model names as other systems write them: "Qwen/Qwen2.5-1.5B-Instruct", "gpt-4o:latest".
bool is_alias(std::string_view text) noexcept;
// Aliases must differ from all other model names, of any kind.
result<void> check_aliases(const std::string& origin, const cluster_config& config,
                           const std::string& path);
// At least one model is served, and only LLMs use the devices of nodes.
result<void> check_models(const std::string& origin, const cluster_config& config, bool has_nodes);

} // namespace baton::cluster
