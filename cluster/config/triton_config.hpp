// config.pbtxt as the JSON that [[workers]].triton_config has: each field by its type, nothing
// added. Pure.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

inline constexpr std::size_t triton_config_bytes_max = 8u << 10;

struct said_config {
  nlohmann::ordered_json json;
  std::vector<std::string> unknown; // fields that Triton does not have, left out
};

// `parsed`: as parse_pbtxt gives it. Errors: bad_config (a value is not of its field's type; names
// the field).
result<said_config> said_config_of(const nlohmann::ordered_json& parsed);
// What a nodes.toml says. Errors: bad_config.
result<void> check_triton_config(std::string_view json);

} // namespace baton::cluster
