// The tests of `is`.
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/text_operations.hpp"

namespace baton::text::jinja {

namespace {

template <value_kind... Kinds>
maybe is_kind(interpreter&, const value& self, const bound_arguments&) {
  return value::boolean((self.is(Kinds) || ...));
}

maybe is_defined(interpreter&, const value& self, const bound_arguments&) {
  return value::boolean(!self.is(value_kind::undefined));
}

// As in jinja2, undefined values and loops are callable too.
maybe is_callable(interpreter&, const value& self, const bound_arguments&) {
  const bool is_joiner = self.is(value_kind::namespace_object) &&
                         self.as_namespace().is == namespace_object::role::joiner;
  return value::boolean(is_joiner || self.is(value_kind::callable) ||
                        self.is(value_kind::undefined) || self.is(value_kind::loop_object));
}

template <bool Wanted>
maybe is_boolean(interpreter&, const value& self, const bound_arguments&) {
  return value::boolean(self.is(value_kind::boolean) && self.as_boolean() == Wanted);
}

maybe is_divisible(interpreter& run, const value& self, const value& by, std::int64_t remainder) {
  const maybe rest = calculate(run, binary_operator::modulo, self, by);
  const auto same = rest ? equals(run, *rest, value::integer(remainder)) : std::nullopt;
  return same ? maybe(value::boolean(*same)) : std::nullopt;
}

maybe is_divisible_by(interpreter& run, const value& self, const bound_arguments& args) {
  return is_divisible(run, self, *args[0], 0);
}

template <std::int64_t Remainder>
maybe has_remainder(interpreter& run, const value& self, const bound_arguments&) {
  return is_divisible(run, self, value::integer(2), Remainder);
}

template <comparison Op>
maybe compares(interpreter& run, const value& self, const bound_arguments& args) {
  const auto answer = compare(run, Op, self, *args[0]);
  return answer ? maybe(value::boolean(*answer)) : std::nullopt;
}

template <letter_case Case>
maybe test_has_case(interpreter& run, const value& self, const bound_arguments&) {
  const maybe text = to_text(run, self);
  if (!text || !run.spend_bytes(text->as_text().size() * 2)) {
    return std::nullopt;
  }
  return value::boolean(has_only_case(text->as_text().text(), Case));
}

maybe is_same_as(interpreter&, const value& self, const bound_arguments& args) {
  return value::boolean(self.is_same(*args[0]));
}

template <const builtin* (*Find)(std::string_view) noexcept>
maybe is_known(interpreter&, const value& self, const bound_arguments&) {
  return value::boolean(self.is(value_kind::string) && Find(self.as_text().text()));
}

// No text is marked as escaped, since nothing is escaped automatically.
maybe is_escaped(interpreter&, const value&, const bound_arguments&) {
  return value::boolean(false);
}

using enum value::kind;
constexpr builtin tests_table[] = {
    {"!=", "other", 1, compares<comparison::not_equal>},
    {"<", "other", 1, compares<comparison::less>},
    {"<=", "other", 1, compares<comparison::less_equal>},
    {"==", "other", 1, compares<comparison::equal>},
    {">", "other", 1, compares<comparison::greater>},
    {">=", "other", 1, compares<comparison::greater_equal>},
    {"boolean", "", 0, is_kind<boolean>},
    {"callable", "", 0, is_callable},
    {"defined", "", 0, is_defined},
    {"divisibleby", "num", 1, is_divisible_by},
    {"eq", "other", 1, compares<comparison::equal>},
    {"equalto", "other", 1, compares<comparison::equal>},
    {"escaped", "", 0, is_escaped},
    {"even", "", 0, has_remainder<0>},
    {"false", "", 0, is_boolean<false>},
    {"filter", "", 0, is_known<find_filter>},
    {"float", "", 0, is_kind<real>},
    {"ge", "other", 1, compares<comparison::greater_equal>},
    {"greaterthan", "other", 1, compares<comparison::greater>},
    {"gt", "other", 1, compares<comparison::greater>},
    {"in", "seq", 1, compares<comparison::in>},
    {"integer", "", 0, is_kind<integer>},
    {"iterable", "", 0, is_kind<string, list, map, undefined, value_kind::loop_object>},
    {"le", "other", 1, compares<comparison::less_equal>},
    {"lessthan", "other", 1, compares<comparison::less>},
    {"lower", "", 0, test_has_case<letter_case::lower>},
    {"lt", "other", 1, compares<comparison::less>},
    {"mapping", "", 0, is_kind<map>},
    {"ne", "other", 1, compares<comparison::not_equal>},
    {"none", "", 0, is_kind<none>},
    {"number", "", 0, is_kind<integer, real, boolean>},
    {"odd", "", 0, has_remainder<1>},
    {"sameas", "other", 1, is_same_as},
    {"sequence", "", 0, is_kind<string, list, map, undefined>},
    {"string", "", 0, is_kind<string>},
    {"test", "", 0, is_known<find_test>},
    {"true", "", 0, is_boolean<true>},
    {"undefined", "", 0, is_kind<undefined>},
    {"upper", "", 0, test_has_case<letter_case::upper>},
};

} // namespace

std::span<const builtin> test_table() noexcept {
  return tests_table;
}

} // namespace baton::text::jinja
