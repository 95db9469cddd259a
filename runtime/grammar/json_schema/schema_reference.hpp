// Finds the target of a `$ref` within a document. Pure.
#pragma once

#include "runtime/grammar/json_schema/json_value.hpp"

namespace baton::grammar {

// A JSON pointer in a URI fragment: "#/$defs/x". Errors: invalid_value (nothing is there),
// unsupported_parameter (another document).
result<const json_value*> find_reference(const json_value& root, const std::string& reference);

} // namespace baton::grammar
