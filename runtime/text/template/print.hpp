// Values as text: Python's str() and repr(), and json.dumps as Hugging Face's tojson calls it.
#pragma once

#include "runtime/text/template/interpreter.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace baton::text::jinja {

// repr(float): the shortest digits that parse to the same number.
std::string python_float(double d);

// Appends str(v), the output of {{ v }}. An undefined value prints nothing.
[[nodiscard]] bool append_text(interpreter& run, marked_text& out, const value& v);
// Appends repr(v): strings in quotes.
[[nodiscard]] bool append_repr(interpreter& run, marked_text& out, const value& v);
// str(v) as a value; a string is returned unchanged.
maybe to_text(interpreter& run, const value& v);

struct json_style {
  std::optional<marked_text> indent; // none: one line
  marked_text item_separator;
  marked_text key_separator;
  bool is_ascii = false;
  bool sorts_keys = false;
};
[[nodiscard]] bool append_json(interpreter& run, marked_text& out, const value& v,
                               const json_style& style);

} // namespace baton::text::jinja
