// The target of a call at TorchServe's doors: its path in segments, its query in pairs, and which
// of TorchServe's operations it names. Pure.
#pragma once

#include "gateway/routes/http_api.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::gateway {

struct torchserve_target {
  std::vector<std::string> path; // decoded; empty ones at the end are left out
  std::vector<std::pair<std::string, std::string>> query;

  // The first of this name; nothing if there is none.
  std::optional<std::string> find(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;
  // The number in a parameter. Errors: invalid_value (it is none of 32 bits).
  result<std::int32_t> integer(std::string_view name, std::int32_t otherwise) const;
};

// Errors: invalid_request (a '%' that is not followed by two hex digits, too many parts).
result<torchserve_target> read_torchserve_target(std::string_view target);

enum class torchserve_operation : std::uint8_t {
  none,
  describe_api,
  ping,
  predict,        // `suffix`: of an API below the model, "v1/completions"; or empty
  predict_kserve, // {"instances"} of KServe's first version
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
  std::string_view name = "other"; // the label of /metrics
  std::string_view methods;        // "GET, HEAD"; OPTIONS besides
  std::string model, suffix;
  std::optional<std::string> version; // as asked for

  bool takes(std::string_view method) const noexcept;
};

// What a door makes of it.
torchserve_route find_torchserve_route(door_kind door, const torchserve_target& target);

} // namespace baton::gateway
