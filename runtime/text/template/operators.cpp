// Arithmetic, equality, order and membership.
#include "runtime/text/template/operators.hpp"

#include "runtime/text/template/printf_format.hpp"
#include "runtime/text/template/values/text_search.hpp"

#include <array>
#include <cmath>

namespace baton::text::jinja {

namespace {

constexpr std::array<std::string_view, 7> symbols = {"+", "-", "*", "/", "//", "%", "**"};

std::nullopt_t fail_operands(interpreter& run, std::string_view symbol, const value& a,
                             const value& b) {
  for (const value* v : {&a, &b}) {
    if (v->is(value_kind::undefined)) {
      return run.fail("{}", v->about());
    }
  }
  return run.fail("'{}' is not defined between {} and {}", symbol, name_of(a.type()),
                  name_of(b.type()));
}

maybe power(interpreter& run, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    return base == 0
               ? maybe(run.fail("zero to a negative power"))
               : value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  // The last square is skipped: it is not needed and could overflow.
  for (bool overflows = false; exponent > 0;) {
    if (exponent % 2 == 1) {
      overflows = __builtin_mul_overflow(result, base, &result);
    }
    exponent /= 2;
    if (exponent > 0) {
      overflows |= __builtin_mul_overflow(base, base, &base);
    }
    if (overflows) {
      return run.fail("an integer does not fit in 64 bits");
    }
  }
  return value::integer(result);
}

// Python rounds quotients down; the remainder has the divisor's sign.
maybe divide_whole(interpreter& run, std::int64_t a, std::int64_t b, bool is_remainder) {
  if (b == 0) {
    return run.fail("division by zero");
  }
  if (b == -1) { // the only quotient that can overflow
    std::int64_t negated = 0;
    if (is_remainder) {
      return value::integer(0);
    }
    if (__builtin_sub_overflow(std::int64_t{0}, a, &negated)) {
      return run.fail("an integer does not fit in 64 bits");
    }
    return value::integer(negated);
  }
  const std::int64_t remainder = a % b;
  const bool is_off = remainder != 0 && (remainder < 0) != (b < 0);
  return value::integer(is_remainder ? remainder + (is_off ? b : 0) : a / b - (is_off ? 1 : 0));
}

maybe calculate_whole(interpreter& run, binary_operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  switch (op) {
  case binary_operator::add:
    overflows = __builtin_add_overflow(a, b, &result);
    break;
  case binary_operator::subtract:
    overflows = __builtin_sub_overflow(a, b, &result);
    break;
  case binary_operator::multiply:
    overflows = __builtin_mul_overflow(a, b, &result);
    break;
  case binary_operator::divide:
    return b == 0 ? maybe(run.fail("division by zero"))
                  : value::real(static_cast<double>(a) / static_cast<double>(b));
  case binary_operator::floor_divide:
  case binary_operator::modulo:
    return divide_whole(run, a, b, op == binary_operator::modulo);
  case binary_operator::power:
    return power(run, a, b);
  }
  return overflows ? maybe(run.fail("an integer does not fit in 64 bits")) : value::integer(result);
}

maybe calculate_real(interpreter& run, binary_operator op, double a, double b) {
  const bool is_division = op == binary_operator::divide || op == binary_operator::floor_divide ||
                           op == binary_operator::modulo;
  if (is_division && b == 0) {
    return run.fail("division by zero");
  }
  switch (op) {
  case binary_operator::add:
    return value::real(a + b);
  case binary_operator::subtract:
    return value::real(a - b);
  case binary_operator::multiply:
    return value::real(a * b);
  case binary_operator::divide:
    return value::real(a / b);
  case binary_operator::power: {
    const double result = std::pow(a, b);
    const bool is_good = std::isfinite(result) || !std::isfinite(a) || !std::isfinite(b);
    return is_good ? maybe(value::real(result)) : run.fail("the power is not a finite float");
  }
  case binary_operator::floor_divide:
  case binary_operator::modulo:
    break;
  }
  double remainder = std::fmod(a, b);
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
  }
  const double quotient = std::round((a - remainder) / b);
  return value::real(op == binary_operator::modulo ? remainder
                     : quotient == 0               ? std::copysign(0.0, a / b)
                                                   : quotient);
}

maybe repeat(interpreter& run, const value& item, std::int64_t times) {
  if (item.is(value_kind::string)) {
    marked_text text;
    return run.append_repeated(text, item.as_text(), times) ? run.make_text(std::move(text))
                                                            : std::nullopt;
  }
  const auto& items = item.as_list();
  if (times > 0 && !items.empty() &&
      static_cast<std::uint64_t>(times) > run.limits().items_max / items.size()) {
    return run.fail("a list of more than {} items", run.limits().items_max);
  }
  std::vector<value> all;
  for (std::int64_t i = 0; i < times; ++i) {
    all.insert(all.end(), items.begin(), items.end());
  }
  return run.make_list(std::move(all), item.is_tuple());
}

bool is_sequence(const value& v) {
  return v.is(value_kind::string) || v.is(value_kind::list);
}

maybe join(interpreter& run, const value& a, const value& b) {
  if (a.is(value_kind::string)) {
    marked_text text;
    return run.append(text, a.as_text()) && run.append(text, b.as_text())
               ? run.make_text(std::move(text))
               : std::nullopt;
  }
  if (!run.spend(a.as_list().size() + b.as_list().size())) {
    return std::nullopt;
  }
  std::vector<value> all = a.as_list();
  all.insert(all.end(), b.as_list().begin(), b.as_list().end());
  return run.make_list(std::move(all), a.is_tuple());
}

std::optional<bool> equals_list(interpreter& run, const value& a, const value& b) {
  const auto& left = a.as_list();
  const auto& right = b.as_list();
  if (a.is_tuple() != b.is_tuple() || left.size() != right.size()) {
    return false;
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto same = equals(run, left[i], right[i]);
    if (!same || !*same) {
      return same;
    }
  }
  return true;
}

std::optional<bool> equals_map(interpreter& run, const value& a, const value& b) {
  if (a.as_map().size() != b.as_map().size()) {
    return false;
  }
  for (const map_entry& e : a.as_map()) {
    const value* other = b.find(e.key);
    const auto same = other ? equals(run, e.item, *other) : std::optional(false);
    if (!same || !*same) {
      return same;
    }
  }
  return true;
}

} // namespace

bool is_true(const value& v) {
  switch (v.type()) {
  case value_kind::undefined:
  case value_kind::none:
    return false;
  case value_kind::boolean:
    return v.as_boolean();
  case value_kind::integer:
    return v.as_integer() != 0;
  case value_kind::real:
    return v.as_real() != 0;
  case value_kind::string:
    return !v.as_text().empty();
  case value_kind::list:
    return !v.as_list().empty();
  case value_kind::map:
    return !v.as_map().empty();
  default:
    return true;
  }
}

bool is_number(const value& v) {
  return v.is(value_kind::boolean) || v.is(value_kind::integer) || v.is(value_kind::real);
}

std::optional<std::int64_t> as_whole(const value& v) {
  if (v.is(value_kind::boolean)) {
    return v.as_boolean() ? 1 : 0;
  }
  return v.is(value_kind::integer) ? std::optional(v.as_integer()) : std::nullopt;
}

double as_double(const value& v) {
  const auto whole = as_whole(v);
  return whole ? static_cast<double>(*whole) : v.as_real();
}

maybe calculate(interpreter& run, binary_operator op, const value& a, const value& b) {
  const auto left = as_whole(a);
  const auto right = as_whole(b);
  if (left && right) {
    return calculate_whole(run, op, *left, *right);
  }
  if (is_number(a) && is_number(b)) {
    return calculate_real(run, op, as_double(a), as_double(b));
  }
  const bool is_same_sequence = is_sequence(a) && a.type() == b.type() &&
                                (a.is(value_kind::string) || a.is_tuple() == b.is_tuple());
  if (op == binary_operator::add && is_same_sequence) {
    return join(run, a, b);
  }
  if (op == binary_operator::multiply && ((is_sequence(a) && right) || (left && is_sequence(b)))) {
    return right ? repeat(run, a, *right) : repeat(run, b, *left);
  }
  if (op == binary_operator::modulo && a.is(value_kind::string)) {
    const bool is_many = b.is(value_kind::list) && b.is_tuple();
    // Python treats anything with subscripts as a mapping, and a mapping may have unused items.
    const bool is_mapping = !is_many && (b.is(value_kind::list) || b.is(value_kind::map) ||
                                         b.is(value_kind::undefined));
    return format_printf(run, a.as_text(), is_many ? b.as_list() : std::vector<value>{b},
                         is_mapping);
  }
  return fail_operands(run, symbols[static_cast<std::size_t>(op)], a, b);
}

maybe signed_value(interpreter& run, const value& v, bool is_negated) {
  if (v.is(value_kind::undefined)) {
    return run.fail("{}", v.about());
  }
  if (!is_number(v)) {
    return run.fail("a {} has no sign", name_of(v.type()));
  }
  if (const auto whole = as_whole(v)) {
    return is_negated ? calculate_whole(run, binary_operator::subtract, 0, *whole)
                      : value::integer(*whole);
  }
  return value::real(is_negated ? -v.as_real() : v.as_real());
}

std::optional<bool> equals(interpreter& run, const value& a, const value& b) {
  if (!run.spend(1)) {
    return std::nullopt;
  }
  if (is_number(a) && is_number(b)) {
    const auto left = as_whole(a);
    const auto right = as_whole(b);
    return left && right ? *left == *right : as_double(a) == as_double(b);
  }
  if (a.type() != b.type()) {
    return false;
  }
  if (a.is_same(b)) {
    return true;
  }
  switch (a.type()) {
  case value_kind::string:
    if (!run.spend_bytes(std::min(a.as_text().size(), b.as_text().size()))) {
      return std::nullopt;
    }
    return a.as_text().text() == b.as_text().text();
  case value_kind::list:
    return equals_list(run, a, b);
  case value_kind::map:
    return equals_map(run, a, b);
  default:
    return false;
  }
}

std::optional<int> order_of(interpreter& run, const value& a, const value& b) {
  if (!run.spend(1)) {
    return std::nullopt;
  }
  if (is_number(a) && is_number(b)) {
    const auto left = as_whole(a);
    const auto right = as_whole(b);
    if (left && right) {
      return *left < *right ? -1 : *left > *right;
    }
    return as_double(a) < as_double(b) ? -1 : as_double(a) > as_double(b);
  }
  if (a.is(value_kind::string) && b.is(value_kind::string)) {
    if (!run.spend_bytes(std::min(a.as_text().size(), b.as_text().size()))) {
      return std::nullopt;
    }
    return a.as_text().text().compare(b.as_text().text()); // byte order equals code point order
  }
  if (a.is(value_kind::list) && b.is(value_kind::list) && a.is_tuple() == b.is_tuple()) {
    const auto& left = a.as_list();
    const auto& right = b.as_list();
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      const auto same = equals(run, left[i], right[i]);
      if (!same) {
        return std::nullopt;
      }
      if (!*same) {
        return order_of(run, left[i], right[i]);
      }
    }
    return left.size() < right.size() ? -1 : left.size() > right.size();
  }
  return fail_operands(run, "<", a, b);
}

std::optional<bool> contains(interpreter& run, const value& container, const value& item) {
  switch (container.type()) {
  case value_kind::string:
    if (!item.is(value_kind::string)) {
      return run.fail("'in <string>' needs a string, not {}", name_of(item.type()));
    }
    if (!run.spend_bytes(container.as_text().size())) {
      return std::nullopt;
    }
    return find_bytes(container.as_text().text(), item.as_text().text(), 0).has_value();
  case value_kind::list:
    for (const value& one : container.as_list()) {
      const auto same = equals(run, one, item);
      if (!same || *same) {
        return same;
      }
    }
    return false;
  case value_kind::map:
    if (item.is(value_kind::map) || (item.is(value_kind::list) && !item.is_tuple())) {
      return run.fail("a {} cannot be the key of a dict", name_of(item.type()));
    }
    return container.find(item) != nullptr;
  case value_kind::undefined:
    return false;
  default:
    return run.fail("a {} has no members", name_of(container.type()));
  }
}

std::optional<bool> compare(interpreter& run, comparison op, const value& a, const value& b) {
  if (op == comparison::equal || op == comparison::not_equal) {
    const auto same = equals(run, a, b);
    return same ? std::optional(*same == (op == comparison::equal)) : std::nullopt;
  }
  if (op == comparison::in || op == comparison::not_in) {
    const auto found = contains(run, b, a);
    return found ? std::optional(*found == (op == comparison::in)) : std::nullopt;
  }
  const bool is_nan = (a.is(value_kind::real) && std::isnan(a.as_real()) && is_number(b)) ||
                      (b.is(value_kind::real) && std::isnan(b.as_real()) && is_number(a));
  if (is_nan) {
    return false;
  }
  const auto order = order_of(run, a, b);
  if (!order) {
    return std::nullopt;
  }
  switch (op) {
  case comparison::less:
    return *order < 0;
  case comparison::less_equal:
    return *order <= 0;
  case comparison::greater:
    return *order > 0;
  default:
    return *order >= 0;
  }
}

} // namespace baton::text::jinja
