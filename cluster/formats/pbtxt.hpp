// Parses Protobuf's text format without a schema, as in config.pbtxt.
// https://protobuf.dev/reference/protobuf/textformat-spec. Pure.
#pragma once

#include "schema/result.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace baton::cluster {

// Returns an object. Each field is an array of its values, because without a schema repeated fields
// are not known. Values are strings, numbers, booleans, enumerators as strings, and messages as
// objects. Errors: bad_config, with the line.
result<nlohmann::ordered_json> parse_pbtxt(std::string_view text);

// The inverse, for a result of parse_pbtxt. Enumerators become strings, which parse_pbtxt does not
// distinguish.
std::string pbtxt_text(const nlohmann::ordered_json& message);

} // namespace baton::cluster
