#include "cluster/files/log_level.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

namespace baton::cluster {
namespace {

// Empty if the variable is not set.
std::string_view from_environment() {
  const char* value = std::getenv(log_level_variable);
  return value ? std::string_view(value) : std::string_view();
}

} // namespace

const std::vector<std::string>& log_levels() {
  static const std::vector<std::string> all{"debug", "info", "warn", "error", "off"};
  return all;
}

bool is_log_level(std::string_view text) {
  const auto& all = log_levels();
  return std::find(all.begin(), all.end(), text) != all.end();
}

result<void> check_log_level() {
  const auto value = from_environment();
  if (value.empty() || is_log_level(value))
    return {};
  return fail_param(errc::bad_config, log_level_variable, "{} is '{}': use {}", log_level_variable,
                    value, fmt::join(log_levels(), ", "));
}

std::string log_level_of(const std::string& configured) {
  const auto value = from_environment();
  return value.empty() ? configured : std::string(value);
}

void use_log_level(const std::string& configured) {
  spdlog::set_level(spdlog::level::from_str(log_level_of(configured)));
}

void impose_log_level(const std::string& level) {
  setenv(log_level_variable, level.c_str(), /*overwrite=*/1);
}

} // namespace baton::cluster
