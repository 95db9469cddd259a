// Answers that call tools, as a family of models writes them (runtime/text/call_style.hpp), with
// arguments that their schemas hold for. The constraint's text is JSON:
//
//   {"format": "hermes", "calls_max": 16, "has_text": false,
//    "tools": [{"name": "f", "schema": {...}}, {"name": "g"}]}
//
// A tool without a schema takes any object. With has_text the answer may be text instead, or begin
// with text where the format has a mark that ends it: the mark stands in no text.
#pragma once

#include "runtime/grammar/grammar_builder.hpp"

#include <string_view>

namespace baton::grammar {

// Errors: invalid_value, unsupported_parameter (a schema that cannot be kept, with its tool's
// name).
result<expression> read_calls(grammar_builder& to, std::string_view source);

} // namespace baton::grammar
