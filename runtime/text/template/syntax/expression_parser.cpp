// Expressions by recursive descent, one function per precedence. From weak to strong: `if-else`,
// or, and, not, comparison, + -, ~, * / // %, **, unary, postfix, filter and test.
#include "runtime/text/template/syntax/expression_parser.hpp"

#include <algorithm>
#include <array>

namespace baton::text::jinja {

expression_ptr expression_parser::parse(bool with_conditional) {
  const nesting level(in_);
  if (!level) {
    return nullptr;
  }
  expression_ptr e = parse_or();
  while (e && with_conditional && in_.skip_name("if")) {
    expression_ptr test = parse_or();
    if (!test) {
      return nullptr;
    }
    expression_ptr otherwise;
    if (in_.skip_name("else") && !(otherwise = parse())) {
      return nullptr;
    }
    const std::uint32_t depth = std::max({depth_of(e), depth_of(test), depth_of(otherwise)});
    e = make(conditional_form{std::move(test), std::move(e), std::move(otherwise)}, depth);
  }
  return e;
}

expression_ptr expression_parser::parse_tuple(bool with_conditional) {
  expression_ptr first = parse(with_conditional);
  if (!first || !in_.is_symbol(",")) {
    return first;
  }
  std::uint32_t depth = depth_of(first);
  std::vector<expression_ptr> items;
  items.push_back(std::move(first));
  while (in_.skip_symbol(",")) {
    if (in_.is(token::kind::output_end) || in_.is(token::kind::block_end) || in_.is_symbol(")")) {
      break;
    }
    expression_ptr item = parse(with_conditional);
    if (!item) {
      return nullptr;
    }
    depth = std::max(depth, depth_of(item));
    items.push_back(std::move(item));
  }
  return make(sequence_form{std::move(items), /*is_tuple=*/true}, depth);
}

expression_ptr expression_parser::parse_or() {
  expression_ptr left = parse_and();
  while (left && in_.skip_name("or")) {
    expression_ptr right = parse_and();
    if (!right) {
      return nullptr;
    }
    const std::uint32_t depth = std::max(left->depth, right->depth);
    left = make(logical_form{/*is_or=*/true, std::move(left), std::move(right)}, depth);
  }
  return left;
}

expression_ptr expression_parser::parse_and() {
  expression_ptr left = parse_not();
  while (left && in_.skip_name("and")) {
    expression_ptr right = parse_not();
    if (!right) {
      return nullptr;
    }
    const std::uint32_t depth = std::max(left->depth, right->depth);
    left = make(logical_form{/*is_or=*/false, std::move(left), std::move(right)}, depth);
  }
  return left;
}

expression_ptr expression_parser::parse_not() {
  const nesting level(in_);
  if (!level) {
    return nullptr;
  }
  if (!in_.skip_name("not")) {
    return parse_compare();
  }
  expression_ptr operand = parse_not();
  if (!operand) {
    return nullptr;
  }
  const std::uint32_t depth = operand->depth;
  return make(unary_form{unary_operator::logical_not, std::move(operand)}, depth);
}

expression_ptr expression_parser::parse_compare() {
  static constexpr std::array<std::pair<std::string_view, comparison>, 6> symbols = {
      {{"==", comparison::equal},
       {"!=", comparison::not_equal},
       {"<", comparison::less},
       {"<=", comparison::less_equal},
       {">", comparison::greater},
       {">=", comparison::greater_equal}}};
  expression_ptr first = parse_sum();
  if (!first) {
    return nullptr;
  }
  std::uint32_t depth = first->depth;
  std::vector<std::pair<comparison, expression_ptr>> rest;
  while (true) {
    std::optional<comparison> op;
    for (const auto& [symbol, meaning] : symbols) {
      if (!op && in_.skip_symbol(symbol)) {
        op = meaning;
      }
    }
    if (!op && in_.skip_name("in")) {
      op = comparison::in;
    } else if (!op && in_.is_name("not") && in_.is_name("in", 1)) {
      in_.next();
      in_.next();
      op = comparison::not_in;
    }
    if (!op) {
      break;
    }
    expression_ptr operand = parse_sum();
    if (!operand) {
      return nullptr;
    }
    depth = std::max(depth, operand->depth);
    rest.emplace_back(*op, std::move(operand));
  }
  return rest.empty() ? std::move(first)
                      : make(compare_form{std::move(first), std::move(rest)}, depth);
}

expression_ptr expression_parser::parse_sum() {
  expression_ptr left = parse_concat();
  while (left && (in_.is_symbol("+") || in_.is_symbol("-"))) {
    const auto op = in_.next().text == "+" ? binary_operator::add : binary_operator::subtract;
    expression_ptr right = parse_concat();
    if (!right) {
      return nullptr;
    }
    const std::uint32_t depth = std::max(left->depth, right->depth);
    left = make(binary_form{op, std::move(left), std::move(right)}, depth);
  }
  return left;
}

expression_ptr expression_parser::parse_concat() {
  expression_ptr first = parse_product();
  if (!first || !in_.is_symbol("~")) {
    return first;
  }
  std::uint32_t depth = first->depth;
  std::vector<expression_ptr> parts;
  parts.push_back(std::move(first));
  while (in_.skip_symbol("~")) {
    expression_ptr part = parse_product();
    if (!part) {
      return nullptr;
    }
    depth = std::max(depth, part->depth);
    parts.push_back(std::move(part));
  }
  return make(concat_form{std::move(parts)}, depth);
}

expression_ptr expression_parser::parse_product() {
  static constexpr std::array<std::pair<std::string_view, binary_operator>, 4> symbols = {
      {{"*", binary_operator::multiply},
       {"/", binary_operator::divide},
       {"//", binary_operator::floor_divide},
       {"%", binary_operator::modulo}}};
  expression_ptr left = parse_power();
  while (left) {
    const auto found = std::find_if(symbols.begin(), symbols.end(), [&](const auto& candidate) {
      return in_.skip_symbol(candidate.first);
    });
    if (found == symbols.end()) {
      break;
    }
    expression_ptr right = parse_power();
    if (!right) {
      return nullptr;
    }
    const std::uint32_t depth = std::max(left->depth, right->depth);
    left = make(binary_form{found->second, std::move(left), std::move(right)}, depth);
  }
  return left;
}

// Jinja's ** groups to the left, unlike Python's.
expression_ptr expression_parser::parse_power() {
  expression_ptr left = parse_unary(/*with_filters=*/true);
  while (left && in_.skip_symbol("**")) {
    expression_ptr right = parse_unary(/*with_filters=*/true);
    if (!right) {
      return nullptr;
    }
    const std::uint32_t depth = std::max(left->depth, right->depth);
    left = make(binary_form{binary_operator::power, std::move(left), std::move(right)}, depth);
  }
  return left;
}

expression_ptr expression_parser::parse_unary(bool with_filters) {
  const nesting level(in_);
  if (!level) {
    return nullptr;
  }
  expression_ptr e;
  if (in_.is_symbol("-") || in_.is_symbol("+")) {
    const auto op = in_.next().text == "-" ? unary_operator::minus : unary_operator::plus;
    expression_ptr operand = parse_unary(/*with_filters=*/false);
    if (!operand) {
      return nullptr;
    }
    const std::uint32_t depth = operand->depth;
    e = make(unary_form{op, std::move(operand)}, depth);
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  return with_filters ? parse_filtered(std::move(e)) : std::move(e);
}

} // namespace baton::text::jinja
