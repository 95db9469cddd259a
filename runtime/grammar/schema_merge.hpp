// Two schemas as one that both hold for: what `allOf` and keywords beside `$ref` or `anyOf` ask.
#pragma once

#include "runtime/grammar/json_value.hpp"

#include <functional>

namespace baton::grammar {

// What a `$ref` names. Errors: invalid_value.
using schema_resolver = std::function<result<const json_value*>(const std::string& reference)>;

// Says nothing about values: title, description ...
bool is_annotation(std::string_view keyword) noexcept;

// Errors: unsupported_parameter (a keyword that stands in both and cannot be one), invalid_value.
result<json_value> merge_schemas(const json_value& a, const json_value& b,
                                 const schema_resolver& resolve);

} // namespace baton::grammar
