// The tool-call formats of the model families, as data. A family is recognised by its chat
// template. A model whose template does not support tools gets Hermes' format through a system
// message. Used by the head (template input), the gateway (parsing answers) and the grammar of
// calls (constraining answers). Pure.
#pragma once

#include "schema/messages.hpp"

#include <string_view>

namespace baton::text {

// A list of calls is list_open, calls joined by `between`, list_close. One call is call_open,
// {"name": "f", "<arguments>": {...}}, call_close. With a mark, the list may be anywhere in an
// answer, between mark and end_mark, with optional white space; without one, only at the beginning.
struct call_row {
  call_format format;
  std::string_view name;
  std::string_view template_mark; // unique to the templates of this family
  std::string_view mark, end_mark;
  std::string_view list_open, call_open, call_close, between, list_close;
  std::string_view arguments; // name of the arguments member
  // A token that the family writes before the list. It is usually a control token, without text.
  std::string_view lead;
  bool has_parallel;  // several calls in one message; other templates refuse them
  bool has_short_ids; // ids of nine letters and digits, required by the template
};

const call_row& row_of(call_format format) noexcept;

// How a template supports tools.
struct call_style {
  call_format format = call_format::hermes;
  bool is_native = false; // the template renders `tools`, `tool_calls` and the role `tool` itself
};
call_style call_style_of(std::string_view chat_template) noexcept;

} // namespace baton::text
