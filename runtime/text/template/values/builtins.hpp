// The table of filters, tests, functions and methods. The parser looks up names, so an unknown one
// is refused when the template is loaded. The interpreter calls the functions.
#pragma once

#include "runtime/text/template/values/value.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text::jinja {

class interpreter;

// nullopt means that the rendering has failed; the interpreter holds the error.
using maybe = std::optional<value>;

struct arguments {
  std::vector<value> positional;
  std::vector<std::pair<marked_text, value>> named; // a name from ** may be user data
};

constexpr std::size_t parameters_max = 6;

// The arguments in the order of the parameters; null if the caller passed none.
struct bound_arguments {
  std::array<const value*, parameters_max> slots{};
  const arguments* all = nullptr;

  const value* operator[](std::size_t i) const { return slots[i]; }
};

struct builtin {
  std::string_view name;
  // "old,new,count": names in order. "*": any arguments, read from bound_arguments::all.
  std::string_view parameters;
  std::size_t required;
  // `self`: the value that is filtered or tested, or has the method.
  maybe (*run)(interpreter&, const value& self, const bound_arguments&);
};

const builtin* find_filter(std::string_view name) noexcept;
const builtin* find_test(std::string_view name) noexcept;
const builtin* find_function(std::string_view name) noexcept;
const builtin* find_method(value::kind of, std::string_view name) noexcept;
const builtin* find_cycler_method(std::string_view name) noexcept;
// Why a jinja2 name is refused; empty if jinja2 does not have it either.
std::string_view refusal_of_filter(std::string_view name) noexcept;

// The tables, one per file.
std::span<const builtin> text_filters() noexcept;
std::span<const builtin> list_filters() noexcept;
std::span<const builtin> group_filters() noexcept;
std::span<const builtin> markup_filters() noexcept;
std::span<const builtin> test_table() noexcept;
std::span<const builtin> function_table() noexcept;
std::span<const builtin> text_methods() noexcept;
std::span<const builtin> list_methods() noexcept;
std::span<const builtin> map_methods() noexcept;
std::span<const builtin> loop_methods() noexcept;
std::span<const builtin> cycler_methods() noexcept;

} // namespace baton::text::jinja
