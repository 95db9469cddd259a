// The tool-call formats of the model families, as data. A family is recognised by its chat
// template. A model whose template does not support tools gets Hermes' format through a system
// message. Used by the head (template input, visible control tokens), the gateway (parsing answers)
// and the grammar of calls (constraining answers). Pure.
#pragma once

#include "schema/messages.hpp"

#include <array>
#include <string_view>

namespace baton::text {

// How one call is written, between call_open and call_close.
//
//   `json`        {"name": "f", "<arguments>": {...}}
//   `named_json`  f, aside, name_close, {...}
//   `tagged`      f, name_close, and for each argument key_open, its name, key_close, its value,
//                 value_close. A text is written bare, any other value as JSON.
//   `python`      f(name=value, ...), with Python's literals
//   `gemma`       f{name:value,...}, where quotes enclose a text, and the names have none
enum class call_syntax : std::uint8_t { json, named_json, tagged, python, gemma };

// A list of calls is list_open, calls joined by `between`, list_close. With a mark, the list may be
// anywhere in an answer; without one, only at the beginning. White space of these texts may be any
// other or missing.
struct call_row {
  call_format format;
  std::string_view name;
  std::array<std::string_view, 2> template_marks; // both are in every template of the family
  call_syntax syntax = call_syntax::json;
  std::string_view mark = {};
  std::string_view other_mark = {}; // within list_open and call_open: a call may begin there, too
  std::string_view end_mark = {};   // `json`: behind a list that has a mark
  std::string_view list_open = {}, call_open = {}, call_close = {}, between = {}, list_close = {};
  std::string_view arguments = "arguments"; // `json`: name of the arguments member
  std::string_view aside = {}; // what a model writes between name and name_close; # is a number
  std::string_view name_close = {};
  std::string_view key_open = {}, key_close = {}, value_close = {};
  std::string_view quote = {}; // `gemma`
  // A token that the family writes before the list. It is usually a control token, without text.
  std::string_view lead = {};
  std::string_view text_open = {}; // before an answer that is a text
  // The control tokens among these texts. They are part of an answer's text if tools may be called.
  std::array<std::string_view, 6> controls = {};
  bool has_parallel = true;     // several calls in one message; other templates refuse them
  bool has_short_ids = false;   // ids of nine letters and digits, required by the template
  bool ends_by_control = false; // call_close is a token that ends the answer
  bool has_named_ids = false;   // the template writes a call's id, which is "functions.f:0"
};

const call_row& row_of(call_format format) noexcept;

// How a template supports tools.
struct call_style {
  call_format format = call_format::hermes;
  bool is_native = false; // the template renders `tools`, `tool_calls` and the role `tool` itself
  // It joins the arguments of earlier calls to texts, so they are JSON text rather than an object.
  bool has_text_arguments = false;
};
call_style call_style_of(std::string_view chat_template) noexcept;

} // namespace baton::text
