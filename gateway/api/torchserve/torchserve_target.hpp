// The target of a call to a TorchServe address: its path segments, its query, and the operation
// that it names. Pure.
#pragma once

#include "gateway/request/http_call.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::gateway {

struct torchserve_target {
  std::vector<std::string> path; // decoded, without empty ones at the end
  std::vector<std::pair<std::string, std::string>> query;

  // The first value of the name; nothing if there is none.
  std::optional<std::string> find(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;
  // A parameter's number. Errors: invalid_value (not a 32-bit integer).
  result<std::int32_t> integer(std::string_view name, std::int32_t otherwise) const;
};

// Errors: invalid_request (a '%' without two hex digits after it, too many parts).
result<torchserve_target> read_torchserve_target(std::string_view target);

enum class torchserve_operation : std::uint8_t {
  none,
  describe_api,
  ping,
  predict,        // `suffix`: the API below the model, "v1/completions"; or empty
  predict_kserve, // {"instances"} of KServe v1
  explain,
  list_models,
  manage_model,
  set_default,
  kserve_ready,
  renew_token,
  metrics
};

struct torchserve_route {
  torchserve_operation is = torchserve_operation::none;
  std::string_view name = "other"; // the label in /metrics
  std::string_view methods;        // "GET, HEAD"; OPTIONS is always allowed
  std::string model, suffix;
  std::optional<std::string> version; // as requested

  bool takes(std::string_view method) const noexcept;
};

// Selects the operation for a target at this listener.
torchserve_route find_torchserve_route(listener_kind listener, const torchserve_target& target);

// The target of a call, or why it has none, and its operation; `none` without a target.
struct torchserve_found {
  result<torchserve_target> target;
  torchserve_route route;
};
torchserve_found find_torchserve(const http_call& call);

} // namespace baton::gateway
