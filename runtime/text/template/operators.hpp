// Python's operators on template values. Called by the interpreter and the filters. A type error is
// recorded in the interpreter, and nullopt is returned.
#pragma once

#include "runtime/text/template/interpreter.hpp"

#include <optional>

namespace baton::text::jinja {

bool is_true(const value& v);
bool is_number(const value& v); // bool, int or float
// Requires: is_number.
double as_double(const value& v);
// A bool counts as 0 or 1. nullopt for other kinds than bool and int.
std::optional<std::int64_t> as_whole(const value& v);

maybe calculate(interpreter& run, binary_operator op, const value& a, const value& b);
maybe signed_value(interpreter& run, const value& v, bool is_negated);
std::optional<bool> compare(interpreter& run, comparison op, const value& a, const value& b);
std::optional<bool> equals(interpreter& run, const value& a, const value& b);
// Negative, 0 or positive. Errors: values without an order.
std::optional<int> order_of(interpreter& run, const value& a, const value& b);
std::optional<bool> contains(interpreter& run, const value& container, const value& item);

} // namespace baton::text::jinja
