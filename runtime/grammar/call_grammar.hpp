// Answers with tool calls in a model family's format (runtime/text/stream/call_style.hpp), with
// arguments that satisfy their schemas. The constraint's text is JSON:
//
//   {"format": "hermes", "calls_max": 16, "has_text": false,
//    "tools": [{"name": "f", "schema": {...}}, {"name": "g"}]}
//
// A tool without a schema accepts any object. `calls_max` is a bound, 1 if the format has no
// parallel calls. With `has_text`, the answer may be text instead, or
// begin with text if the format has a mark that ends it; the text never contains the mark. With
// "otherwise": {"kind": 2, "text": "{...}"}, the answer may instead follow that other constraint
// (constraint_kind, its text), but may not be other text.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"
#include "schema/constraint.hpp"

#include <functional>
#include <string_view>

namespace baton::grammar {

// `read_other` parses the content of `otherwise`. Errors: invalid_value, unsupported_parameter (an
// unsupported schema, with its tool's name), those of `read_other`.
result<expression>
read_calls(grammar_builder& to, std::string_view source,
           const std::function<result<expression>(const constraint&)>& read_other);

} // namespace baton::grammar
