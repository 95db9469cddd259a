// How the families of models write calls of tools, as data. A family is known by its chat template;
// a model whose template knows of no tools gets Hermes' format, told by a system message. Used by
// the head (what the template is given), the gateway (what an answer means) and the grammar of
// calls (what a constrained answer must look like). Pure.
#pragma once

#include "schema/messages.hpp"

#include <string_view>

namespace baton::text {

// A list of calls is list_open, calls with `between` between them, list_close; a call is call_open,
// {"name": "f", "<arguments>": {...}}, call_close. With a mark it stands anywhere in an answer,
// between mark and end_mark, which white space may surround; without one at the beginning alone.
struct call_row {
  call_format format;
  std::string_view name;
  std::string_view template_mark; // what the templates of the family have, and no others
  std::string_view mark, end_mark;
  std::string_view list_open, call_open, call_close, between, list_close;
  std::string_view arguments; // the name of that member
  // A token of the family before the list: control tokens have no text, but it may be a usual one.
  std::string_view lead;
  bool has_parallel;  // several calls in one message: else its template refuses them
  bool has_short_ids; // nine letters and digits, which its template insists on
};

const call_row& row_of(call_format format) noexcept;

// What a template does with tools.
struct call_style {
  call_format format = call_format::hermes;
  bool is_native = false; // it renders `tools`, `tool_calls` and the role `tool` by itself
};
call_style call_style_of(std::string_view chat_template) noexcept;

} // namespace baton::text
