// Values that are not data: functions, macros, namespaces and loops. The interpreter of one
// rendering owns namespaces, loops and scopes; a callable points to them and never outlives the
// interpreter.
#pragma once

#include "runtime/text/template/values/value.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text::jinja {

struct builtin;          // builtins.hpp
struct macro_definition; // syntax.hpp
struct for_statement;

struct scope {
  scope* parent = nullptr;
  std::vector<std::pair<std::string_view, value>> variables;
  bool is_captured = false; // a macro was defined inside: kept until the rendering ends
};

// A function or bound method if `function` is set, else a macro.
struct callable {
  std::string_view name;
  const builtin* function = nullptr;
  value self; // of a bound method
  const macro_definition* macro = nullptr;
  scope* closure = nullptr;
};

// A mutable object of a template. The attributes are those of a namespace, or the blocks of `self`.
struct namespace_object {
  enum class role : std::uint8_t { names, blocks, cycler, joiner };
  role is = role::names;
  std::vector<std::pair<std::string, value>> attributes;
  std::vector<value> items{}; // the items of a cycler; only the separator of a joiner
  std::size_t index = 0;      // of a cycler's current item; of a joiner: number of calls
};

struct loop_object {
  std::vector<value> items;
  std::size_t index = 0; // of the item being visited
  bool has_changed_before = false;
  std::vector<value> last_changed;
  std::int64_t depth = 1;                   // of nested calls
  const for_statement* recursion = nullptr; // only a recursive loop can be called
  scope* around = nullptr;                  // of a recursive loop
};

} // namespace baton::text::jinja
