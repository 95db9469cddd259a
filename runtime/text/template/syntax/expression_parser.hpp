// The grammar of expressions; the statement parser (parser.cpp) owns one.
#pragma once

#include "runtime/text/template/syntax/syntax.hpp"
#include "runtime/text/template/syntax/token_reader.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text::jinja {

// After a failure, which the reader holds, every function returns null (or nullopt).
class expression_parser {
public:
  explicit expression_parser(token_reader& in) : in_(in) {}

  expression_ptr parse(bool with_conditional = true);
  // `a, b` is a tuple; a single expression is returned unchanged.
  expression_ptr parse_tuple(bool with_conditional = true);
  // For `for` and `set`: a name or a list of targets; attributes only if allowed.
  std::optional<assign_target> parse_target(bool with_attribute);
  // `| a | b(1)` up to the tag's end. `first_is_named`: the first filter has no bar.
  bool parse_filters(std::vector<filter_call>& filters, bool first_is_named);

  // All variables that are read.
  std::set<std::string, std::less<>> names;

  // The macro being parsed; records its use of `caller`, `varargs` and `kwargs`.
  macro_definition* macro = nullptr;

private:
  expression_ptr parse_or();
  expression_ptr parse_and();
  expression_ptr parse_not();
  expression_ptr parse_compare();
  expression_ptr parse_sum();
  expression_ptr parse_concat();
  expression_ptr parse_product();
  expression_ptr parse_power();
  expression_ptr parse_unary(bool with_filters);
  expression_ptr parse_primary();
  expression_ptr parse_name();
  expression_ptr parse_number();
  expression_ptr parse_sequence(std::string_view closer);
  expression_ptr parse_map();
  expression_ptr parse_postfix(expression_ptr object);
  expression_ptr parse_subscript(expression_ptr object);
  expression_ptr parse_filtered(expression_ptr operand);
  expression_ptr parse_test(expression_ptr operand);
  std::optional<filter_call> parse_filter_call();
  bool parse_arguments(std::vector<argument_form>& all);
  std::optional<assign_target> parse_single_target(bool with_attribute);

  template <class Form>
  expression_ptr make(Form form, std::uint32_t depth_below);

  token_reader& in_;
};

inline std::uint32_t depth_of(const expression_ptr& e) {
  return e ? e->depth : 0;
}

template <class Form>
expression_ptr expression_parser::make(Form form, std::uint32_t depth_below) {
  if (depth_below + 1 > in_.nesting_max()) {
    in_.fail_here("the template nests too deeply");
    return nullptr;
  }
  return std::make_unique<expression>(expression{in_.line(), depth_below + 1, std::move(form)});
}

} // namespace baton::text::jinja
