// Merges two schemas that must both hold, for `allOf` and keywords beside `$ref` or `anyOf`.
#pragma once

#include "runtime/grammar/json_schema/json_value.hpp"

#include <functional>

namespace baton::grammar {

// Resolves a `$ref` to its target. Errors: invalid_value.
using schema_resolver = std::function<result<const json_value*>(const std::string& reference)>;

// A keyword without effect on validation: title, description ...
bool is_annotation(std::string_view keyword) noexcept;

// Errors: unsupported_parameter (a keyword of both that cannot be merged), invalid_value.
result<json_value> merge_schemas(const json_value& a, const json_value& b,
                                 const schema_resolver& resolve);

} // namespace baton::grammar
