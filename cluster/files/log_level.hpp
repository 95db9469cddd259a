// The log level of the processes of a cluster. BATON_LOG_LEVEL, which `cluster up --log-level` sets
// for all processes that it starts, overrides cluster.log_level.
#pragma once

#include "schema/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

inline constexpr const char* log_level_variable = "BATON_LOG_LEVEL";

// From the most to the least verbose.
const std::vector<std::string>& log_levels();
bool is_log_level(std::string_view text);
// Errors: bad_config (the variable holds no level).
result<void> check_log_level();
// The level in effect if nodes.toml has `configured`.
std::string log_level_of(const std::string& configured);
// Applies it to this process.
void use_log_level(const std::string& configured);
// Sets it for this process and all processes that it starts. Requires: is_log_level.
void impose_log_level(const std::string& level);

} // namespace baton::cluster
