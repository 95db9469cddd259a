// What a value can refer to beside data: functions, macros, namespaces and loops. The interpreter
// of one rendering owns namespaces, loops and scopes; a callable points to them and never outlives
// it.
#pragma once

#include "runtime/text/template/value.hpp"

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

// What a template can change. Attributes are a namespace's own, and of `self` its blocks.
struct namespace_object {
  enum class role : std::uint8_t { names, blocks, cycler, joiner };
  role is = role::names;
  std::vector<std::pair<std::string, value>> attributes;
  std::vector<value> items{}; // what a cycler goes through; a joiner's separator alone
  std::size_t index = 0;      // of a cycler's current item; of a joiner: how often it was called
};

struct loop_object {
  std::vector<value> items;
  std::size_t index = 0; // of the item being visited
  bool has_changed_before = false;
  std::vector<value> last_changed;
  std::int64_t depth = 1;                   // of calls inside one another
  const for_statement* recursion = nullptr; // only a recursive loop can be called
  scope* around = nullptr;                  // of a recursive loop
};

} // namespace baton::text::jinja
