// Protobuf's text format without a schema, as config.pbtxt has it.
// https://protobuf.dev/reference/protobuf/textformat-spec. Pure.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <string_view>

namespace baton::cluster {

// An object; each field is an array of the values that it was given, for without a schema nobody
// knows which are repeated: texts, numbers, true and false, names of enumerations as texts, and
// messages as objects again. Errors: bad_config, with the line.
result<nlohmann::ordered_json> parse_pbtxt(std::string_view text);

} // namespace baton::cluster
