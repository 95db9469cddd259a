// Answers that call tools, as a family of models writes them (runtime/text/call_style.hpp), with
// arguments that their schemas hold for. The constraint's text is JSON:
//
//   {"format": "hermes", "calls_max": 16, "has_text": false,
//    "tools": [{"name": "f", "schema": {...}}, {"name": "g"}]}
//
// A tool without a schema takes any object. With has_text the answer may be text instead, or begin
// with text where the format has a mark that ends it: the mark stands in no text. With
// "otherwise": {"kind": 2, "text": "{...}"} it may instead be what that other constraint allows
// (constraint_kind, its text), and no other text.
#pragma once

#include "runtime/grammar/grammar_builder.hpp"
#include "schema/constraint.hpp"

#include <functional>
#include <string_view>

namespace baton::grammar {

// `read_other` reads what `otherwise` holds. Errors: invalid_value, unsupported_parameter (a schema
// that cannot be kept, with its tool's name), those of `read_other`.
result<expression>
read_calls(grammar_builder& to, std::string_view source,
           const std::function<result<expression>(const constraint&)>& read_other);

} // namespace baton::grammar
