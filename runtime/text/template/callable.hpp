// What a value can refer to beside data: functions, macros, namespaces and loops. The interpreter
// of one rendering owns namespaces, loops and scopes; a callable points to them and never outlives
// it.
#pragma once

#include "runtime/text/template/value.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text::jinja {

struct builtin;          // builtins.hpp
struct macro_definition; // syntax.hpp

struct scope {
  scope* parent = nullptr;
  std::vector<std::pair<std::string_view, value>> variables;
  bool is_captured = false; // a macro was defined inside: it stays until the end of the rendering
};

// A function or bound method if `function` is set, else a macro.
struct callable {
  std::string_view name;
  const builtin* function = nullptr;
  value self; // of a bound method
  const macro_definition* macro = nullptr;
  scope* closure = nullptr;
};

struct namespace_object {
  std::vector<std::pair<std::string, value>> attributes;
};

struct loop_object {
  std::vector<value> items;
  std::size_t index = 0; // of the item being visited
  bool has_changed_before = false;
  std::vector<value> last_changed;
};

} // namespace baton::text::jinja
