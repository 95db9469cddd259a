#include "gateway/workers/worker_parameters.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::uint64_t timeout_micros_max = 86'400'000'000; // a day

// 0 if it is absent.
result<std::uint64_t> read_integer(const nlohmann::json& parameters, const char* name,
                                   std::uint64_t most) {
  const auto at = parameters.find(name);
  if (at == parameters.end())
    return 0;
  if (at->is_number_unsigned() && at->get<std::uint64_t>() <= most)
    return at->get<std::uint64_t>();
  return fail_param(errc::invalid_value, name, "{} must be a whole number from 0 to {}", name,
                    most);
}

} // namespace

result<void> read_queue_parameters(const infer& request, const schedule::worker_limits& limits,
                                   schedule::worker_queue::new_request& into) {
  const auto& levels = limits.priority_queue_policy;
  const bool has_timeout = limits.default_queue_policy.allow_timeout_override ||
                           std::any_of(levels.begin(), levels.end(), [](const auto& level) {
                             return level.second.allow_timeout_override;
                           });
  if ((limits.priority_levels == 0 && !has_timeout) || request.parameters.empty())
    return {};
  const auto given = nlohmann::json::parse(request.parameters, nullptr, /*allow_exceptions=*/false);
  if (!given.is_object())
    return fail_param(errc::invalid_value, "parameters", "parameters must be a JSON object");
  if (limits.priority_levels > 0) {
    const auto priority = read_integer(given, "priority", limits.priority_levels);
    if (!priority)
      return priority.error();
    into.priority = *priority;
  }
  if (has_timeout) {
    const auto timeout = read_integer(given, "timeout", timeout_micros_max);
    if (!timeout)
      return timeout.error();
    into.queue_timeout = std::chrono::microseconds(*timeout);
  }
  return {};
}

} // namespace baton::gateway
