// How much the processes of a cluster write into their logs. The environment (BATON_LOG_LEVEL),
// which `cluster up --log-level` sets for all that it starts, goes ahead of cluster.log_level.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

inline constexpr const char* log_level_variable = "BATON_LOG_LEVEL";

// From the most to the least.
const std::vector<std::string>& log_levels();
bool is_log_level(std::string_view text);
// Errors: bad_config (the environment names no level).
result<void> check_log_level();
// What holds where nodes.toml says `configured`.
std::string log_level_of(const std::string& configured);
// It holds for this process from now on.
void use_log_level(const std::string& configured);
// For this process and all that it starts. Requires: is_log_level.
void impose_log_level(const std::string& level);

} // namespace baton::cluster
