// The grammar of one call in each syntax of runtime/text/stream/call_style.hpp. Used by
// call_grammar.cpp. Pure.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"
#include "runtime/text/stream/call_style.hpp"

#include <string_view>

namespace baton::grammar {

struct called_tool {
  std::string_view name;
  const json_value* schema = nullptr; // of its arguments; null: any object
};

// From call_open to call_close. Errors: those of the schema.
result<expression> write_call(grammar_builder& to, const text::call_row& row,
                              const called_tool& tool);

} // namespace baton::grammar
