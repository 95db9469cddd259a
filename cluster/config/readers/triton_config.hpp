// Converts config.pbtxt to the JSON of [[workers]].triton_config: typed fields, no defaults added.
// Pure.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

inline constexpr std::size_t triton_config_bytes_max = 8u << 10;

struct given_config {
  nlohmann::ordered_json json;
  std::vector<std::string> unknown; // ignored fields that Triton does not have
};

// `parsed`: a result of parse_pbtxt. Errors: bad_config (a value has the wrong type; names the
// field).
result<given_config> given_config_of(const nlohmann::ordered_json& parsed);
// Checks a value from nodes.toml. Errors: bad_config.
result<void> check_triton_config(std::string_view json);

} // namespace baton::cluster
