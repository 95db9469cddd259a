// Operands of expressions: names, literals and brackets, followed by attributes, subscripts, calls,
// filters and tests. Also the targets of assignments.
#include "runtime/text/template/syntax/expression_parser.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace baton::text::jinja {

namespace {

std::uint32_t depth_of(const std::vector<argument_form>& all) {
  std::uint32_t depth = 0;
  for (const argument_form& a : all) {
    depth = std::max(depth, depth_of(a.item));
  }
  return depth;
}

} // namespace

expression_ptr expression_parser::parse_primary() {
  switch (in_.peek().type) {
  case token::kind::name:
    return parse_name();
  case token::kind::string: {
    std::string text = in_.next().text;
    while (in_.is(token::kind::string)) { // adjacent strings join
      text += in_.next().text;
    }
    return make(literal_form{value::trusted(std::move(text))}, 0);
  }
  case token::kind::integer:
  case token::kind::real:
    return parse_number();
  default:
    break;
  }
  if (in_.skip_symbol("(")) {
    if (in_.skip_symbol(")")) {
      return make(sequence_form{{}, /*is_tuple=*/true}, 0);
    }
    expression_ptr inner = parse_tuple();
    return inner && in_.expect_symbol(")") ? std::move(inner) : nullptr;
  }
  if (in_.skip_symbol("[")) {
    return parse_sequence("]");
  }
  if (in_.skip_symbol("{")) {
    return parse_map();
  }
  in_.fail_expected("an expression");
  return nullptr;
}

expression_ptr expression_parser::parse_name() {
  std::string name = in_.next().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    return make(literal_form{value::boolean(name[0] == 't' || name[0] == 'T')}, 0);
  }
  if (name == "none" || name == "None") {
    return make(literal_form{value::none()}, 0);
  }
  if (macro) {
    macro->uses_caller |= name == "caller";
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
  }
  names.insert(name);
  return make(name_form{std::move(name)}, 0);
}

expression_ptr expression_parser::parse_number() {
  const token& t = in_.next();
  std::string_view digits = t.text;
  if (t.type == token::kind::real) {
    double d = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), d);
    if (code != std::errc{} || end != digits.data() + digits.size()) {
      in_.fail_here("'{}' is not within the range of a float", digits);
      return nullptr;
    }
    return make(literal_form{value::real(d)}, 0);
  }
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    digits.remove_prefix(base == 10 ? 0 : 2);
  }
  std::int64_t i = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), i, base);
  const bool has_leading_zero = base == 10 && digits[0] == '0' && i != 0;
  if (code != std::errc{} || end != digits.data() + digits.size() || has_leading_zero) {
    in_.fail_here("'{}' is not a 64-bit integer", t.text);
    return nullptr;
  }
  return make(literal_form{value::integer(i)}, 0);
}

expression_ptr expression_parser::parse_sequence(std::string_view closer) {
  std::vector<expression_ptr> items;
  std::uint32_t depth = 0;
  while (!in_.skip_symbol(closer)) {
    if (!items.empty()) {
      if (!in_.expect_symbol(",")) {
        return nullptr;
      }
      if (in_.skip_symbol(closer)) {
        break;
      }
    }
    expression_ptr item = parse();
    if (!item) {
      return nullptr;
    }
    depth = std::max(depth, item->depth);
    items.push_back(std::move(item));
  }
  return make(sequence_form{std::move(items), /*is_tuple=*/false}, depth);
}

expression_ptr expression_parser::parse_map() {
  map_form form;
  std::uint32_t depth = 0;
  while (!in_.skip_symbol("}")) {
    if (!form.entries.empty()) {
      if (!in_.expect_symbol(",")) {
        return nullptr;
      }
      if (in_.skip_symbol("}")) {
        break;
      }
    }
    expression_ptr key = parse();
    if (!key || !in_.expect_symbol(":")) {
      return nullptr;
    }
    expression_ptr item = parse();
    if (!item) {
      return nullptr;
    }
    depth = std::max({depth, key->depth, item->depth});
    form.entries.emplace_back(std::move(key), std::move(item));
  }
  return make(std::move(form), depth);
}

expression_ptr expression_parser::parse_postfix(expression_ptr object) {
  while (object) {
    if (in_.skip_symbol(".")) {
      const std::uint32_t depth = object->depth;
      if (in_.is(token::kind::name)) {
        object = make(attribute_form{std::move(object), in_.next().text}, depth);
      } else if (in_.is(token::kind::integer)) { // a.0
        expression_ptr index = parse_number();
        object = index ? make(subscript_form{std::move(object), std::move(index)}, depth) : nullptr;
      } else {
        in_.fail_expected("a name");
        return nullptr;
      }
    } else if (in_.skip_symbol("[")) {
      object = parse_subscript(std::move(object));
    } else if (in_.is_symbol("(")) {
      std::vector<argument_form> all;
      if (!parse_arguments(all)) {
        return nullptr;
      }
      const std::uint32_t depth = std::max(object->depth, depth_of(all));
      object = make(call_form{std::move(object), std::move(all)}, depth);
    } else {
      break;
    }
  }
  return object;
}

expression_ptr expression_parser::parse_subscript(expression_ptr object) {
  std::array<expression_ptr, 3> bounds; // start, stop, step
  std::size_t colons = 0;
  std::uint32_t depth = object->depth;
  while (!in_.skip_symbol("]")) {
    if (in_.is_symbol(":") && colons < 2) {
      in_.next();
      ++colons;
      continue;
    }
    if (bounds[colons]) {
      in_.fail_expected("']'");
      return nullptr;
    }
    if (!(bounds[colons] = parse())) {
      return nullptr;
    }
    depth = std::max(depth, bounds[colons]->depth);
  }
  if (colons > 0) {
    return make(slice_form{std::move(object), std::move(bounds[0]), std::move(bounds[1]),
                           std::move(bounds[2])},
                depth);
  }
  if (!bounds[0]) {
    in_.fail_expected("an expression");
    return nullptr;
  }
  return make(subscript_form{std::move(object), std::move(bounds[0])}, depth);
}

expression_ptr expression_parser::parse_filtered(expression_ptr operand) {
  while (operand) {
    if (in_.skip_symbol("|")) {
      auto call = parse_filter_call();
      if (!call) {
        return nullptr;
      }
      const std::uint32_t depth = std::max(operand->depth, depth_of(call->arguments));
      operand = make(filter_form{std::move(operand), std::move(*call)}, depth);
    } else if (in_.skip_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (in_.is_symbol("(")) { // calls the result of a filter
      operand = parse_postfix(std::move(operand));
    } else {
      break;
    }
  }
  return operand;
}

expression_ptr expression_parser::parse_test(expression_ptr operand) {
  const bool is_negated = in_.skip_name("not");
  std::string name = in_.is(token::kind::name) ? in_.peek().text : "";
  const builtin* test = find_test(name);
  if (!test) {
    in_.fail_here("no test named '{}'", name.empty() ? in_.peek().text : name);
    return nullptr;
  }
  in_.next();
  std::vector<argument_form> all;
  const bool starts_operand = in_.is(token::kind::string) || in_.is(token::kind::integer) ||
                              in_.is(token::kind::real) || in_.is_symbol("[") ||
                              in_.is_symbol("{") ||
                              (in_.is(token::kind::name) && !in_.is_name("else") &&
                               !in_.is_name("or") && !in_.is_name("and"));
  if (in_.is_symbol("(")) {
    if (!parse_arguments(all)) {
      return nullptr;
    }
  } else if (starts_operand) {
    if (in_.is_name("is")) {
      in_.fail_here("tests cannot be chained with 'is'");
      return nullptr;
    }
    expression_ptr item = parse_postfix(parse_primary());
    if (!item) {
      return nullptr;
    }
    all.push_back({argument_form::kind::positional, "", std::move(item)});
  }
  const std::uint32_t depth = std::max(operand->depth, depth_of(all));
  return make(test_form{std::move(operand), test, std::move(all), is_negated}, depth);
}

std::optional<filter_call> expression_parser::parse_filter_call() {
  const std::string name = in_.is(token::kind::name) ? in_.peek().text : "";
  filter_call call{find_filter(name), {}, in_.line()};
  if (const auto why = refusal_of_filter(name); !why.empty()) {
    in_.fail_here("the filter '{}' is not supported: {}", name, why);
    return std::nullopt;
  }
  if (!call.filter) {
    in_.fail_here("no filter named '{}'", name.empty() ? in_.peek().text : name);
    return std::nullopt;
  }
  in_.next();
  if (in_.is_symbol("(") && !parse_arguments(call.arguments)) {
    return std::nullopt;
  }
  return call;
}

bool expression_parser::parse_filters(std::vector<filter_call>& filters, bool first_is_named) {
  while (first_is_named || in_.skip_symbol("|")) {
    first_is_named = false;
    auto call = parse_filter_call();
    if (!call) {
      return false;
    }
    filters.push_back(std::move(*call));
  }
  return true;
}

bool expression_parser::parse_arguments(std::vector<argument_form>& all) {
  using kind = argument_form::kind;
  if (!in_.expect_symbol("(")) {
    return false;
  }
  for (bool is_first = true; !in_.skip_symbol(")"); is_first = false) {
    if (!is_first) {
      if (!in_.expect_symbol(",")) {
        return false;
      }
      if (in_.skip_symbol(")")) {
        return true;
      }
    }
    argument_form a{kind::positional, "", nullptr};
    if (in_.skip_symbol("**")) {
      a.type = kind::unpacked_map;
    } else if (in_.skip_symbol("*")) {
      a.type = kind::unpacked_list;
    } else if (in_.is(token::kind::name) && in_.is_symbol("=", 1)) {
      a = {kind::named, in_.next().text, nullptr};
      in_.next();
    }
    const bool is_late = !all.empty() && all.back().type != kind::positional &&
                         (a.type == kind::positional || a.type == kind::unpacked_list);
    if (is_late && !(a.type == kind::positional && all.back().type == kind::unpacked_list)) {
      return in_.fail_here("a positional argument follows a named one");
    }
    if (!(a.item = parse())) {
      return false;
    }
    all.push_back(std::move(a));
  }
  return true;
}

std::optional<assign_target> expression_parser::parse_target(bool with_attribute) {
  auto first = parse_single_target(with_attribute);
  if (!first || !in_.is_symbol(",")) {
    return first;
  }
  assign_target all;
  all.items.push_back(std::move(*first));
  while (in_.skip_symbol(",")) {
    if (!in_.is(token::kind::name) && !in_.is_symbol("(")) {
      break;
    }
    auto item = parse_single_target(with_attribute);
    if (!item) {
      return std::nullopt;
    }
    all.items.push_back(std::move(*item));
  }
  return all;
}

std::optional<assign_target> expression_parser::parse_single_target(bool with_attribute) {
  const nesting level(in_);
  if (!level) {
    return std::nullopt;
  }
  if (in_.skip_symbol("(")) {
    auto inner = parse_target(with_attribute);
    return inner && in_.expect_symbol(")") ? std::move(inner) : std::nullopt;
  }
  static constexpr std::array<std::string_view, 6> constants = {"true",  "True", "false",
                                                                "False", "none", "None"};
  const std::string name = in_.peek().text;
  if (!in_.expect(token::kind::name, "a name to assign to")) {
    return std::nullopt;
  }
  if (std::find(constants.begin(), constants.end(), name) != constants.end()) {
    in_.fail_here("cannot assign to '{}'", name);
    return std::nullopt;
  }
  assign_target target{name, "", {}};
  if (with_attribute && in_.skip_symbol(".")) {
    target.attribute = in_.peek().text;
    if (!in_.expect(token::kind::name, "a name")) {
      return std::nullopt;
    }
  }
  return target;
}

} // namespace baton::text::jinja
