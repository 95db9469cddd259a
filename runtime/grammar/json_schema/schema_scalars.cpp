// Strings and numbers of a JSON schema.
#include "runtime/grammar/automata/regex.hpp"
#include "runtime/grammar/json_schema/schema_reader.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

struct format_row {
  std::string_view name;
  const char* pattern;             // of the whole string
  std::uint32_t shortest, longest; // lengths of the matching strings
};

// The specifications named by JSON schema (RFC 3339, 4122, 5321, 1123, 2673, 4291, 3986), or a
// subset. Years start at 1000, without leap days or leap seconds; addresses and URIs have their
// plain form.
constexpr format_row formats[] = {
    {"date",
     "[12]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"
     "02-(0[1-9]|1\\d|2[0-8]))",
     10, 10},
    {"time", "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)", 9,
     21},
    {"date-time",
     "[12]\\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"
     "02-(0[1-9]|1\\d|2[0-8]))T([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?"
     "(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)",
     20, 32},
    {"duration",
     "P(\\d{1,4}W|\\d{1,4}Y(\\d{1,2}M(\\d{1,3}D)?)?|\\d{1,4}M(\\d{1,3}D)?|\\d{1,4}D"
     "(T\\d{1,3}H(\\d{1,3}M(\\d{1,3}S)?)?)?|T(\\d{1,4}H(\\d{1,3}M(\\d{1,3}S)?)?|"
     "\\d{1,4}M(\\d{1,3}S)?|\\d{1,4}S))",
     3, 19},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", 36, 36},
    {"email",
     "[A-Za-z0-9_+-]{1,32}(\\.[A-Za-z0-9_+-]{1,16}){0,2}@[A-Za-z0-9]([A-Za-z0-9-]{0,30}"
     "[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?){1,3}",
     5, 198},
    {"hostname",
     "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\\.[A-Za-z]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?)"
     "{0,4}",
     1, 164},
    {"ipv4", "((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)",
     7, 15},
    {"ipv6", "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}", 15, 39},
    {"uri",
     "[a-z][a-z0-9+.-]{0,15}://[A-Za-z0-9]([A-Za-z0-9.-]{0,60}[A-Za-z0-9])?(:\\d{1,4})?"
     "(/[A-Za-z0-9_~.-]{0,64}){0,8}(\\?[A-Za-z0-9_=&-]{0,128})?(#[A-Za-z0-9_-]{0,32})?",
     5, 768},
};

} // namespace

result<expression> schema_reader::read_string(const json_value& schema, const location& where) {
  const auto least = count(schema, "minLength", where);
  const auto most = count(schema, "maxLength", where);
  if (!least || !most)
    return least ? most.error() : least.error();
  const auto* pattern = schema.find("pattern");
  const auto* format = schema.find("format");
  for (const auto* text : {pattern, format})
    if (text && !text->is_string())
      return wrong(where, "'pattern' and 'format' must be strings");
  const bool has_length = *least || *most;
  if (pattern && has_length)
    return unsupported(where, "'pattern' with a length");
  // Beside a pattern, or a length that some of its texts violate, a format is only an annotation,
  // as in the specification.
  if (pattern)
    return pattern->text.empty() ? any_string()
                                 : read_pattern(pattern->text, /*is_search=*/true, where);
  if (format) {
    const auto shortest = least->value_or(0), longest = most->value_or(UINT32_MAX);
    const auto* row = std::find_if(std::begin(formats), std::end(formats),
                                   [&](const auto& f) { return f.name == format->text; });
    if (row == std::end(formats) && !has_length)
      return unsupported(where, fmt::format("the format '{}'", format->text.substr(0, 64)));
    if (row != std::end(formats) && row->shortest >= shortest && row->longest <= longest)
      return read_pattern(row->pattern, /*is_search=*/false, where);
  }
  if (!has_length)
    return any_string();
  return bare_ ? bare_string_of_length(least->value_or(0), *most)
               : json_.string_of_length(least->value_or(0), *most);
}

result<expression> schema_reader::read_pattern(const std::string& pattern, bool is_search,
                                               const location& where) {
  const auto write = [this](const character_set& set) {
    return bare_ ? to_.characters(within_bare(set)) : json_.written(set);
  };
  const regex_style style{write, is_search};
  auto content = read_regex(to_, pattern, style);
  if (!content)
    return fail(content.error().code, "{} ('pattern' at {})", content.error().message, where.path);
  return bare_ ? to_.sequence({bare_->open, *content, bare_->close}) : json_.string_of(*content);
}

result<decimal_range> schema_reader::read_range(const json_value& schema,
                                                const location& where) const {
  decimal_range out;
  // If a side has two bounds, the narrower one applies.
  const auto add = [&](const char* keyword, std::optional<decimal_bound>& to, bool is_excluded,
                       bool is_least) -> result<void> {
    const auto* value = schema.find(keyword);
    if (!value)
      return {};
    const auto at = value->is_number() ? decimal_of(value->text) : std::nullopt;
    if (!value->is_number())
      return wrong(where, "'{}' must be a number", keyword);
    if (!at)
      return unsupported(where, fmt::format("'{}' with more than {} digits, or 6 after the point",
                                            keyword, decimal_digits_max));
    const bool is_narrower = !to || (is_least ? is_less(to->at, *at) : is_less(*at, to->at)) ||
                             (to->at == *at && is_excluded);
    if (is_narrower)
      to = decimal_bound{*at, is_excluded};
    return {};
  };
  for (const auto& ok :
       {add("minimum", out.least, false, true), add("exclusiveMinimum", out.least, true, true),
        add("maximum", out.most, false, false), add("exclusiveMaximum", out.most, true, false)})
    if (!ok)
      return ok.error();
  return out;
}

result<expression> schema_reader::read_number(const json_value& schema, bool is_integer,
                                              const location& where) {
  if (const auto* step = schema.find("multipleOf")) {
    const auto number = step->is_number() ? decimal_of(step->text) : std::nullopt;
    if (!number || number->whole != "1" || !number->fraction.empty() || number->is_negative)
      return unsupported(where, "'multipleOf' other than 1");
    is_integer = true;
  }
  const auto range = read_range(schema, where);
  if (!range)
    return range.error();
  if (!range->least && !range->most)
    return is_integer ? json_.integer() : json_.number();
  return to_.shared("range",
                    is_integer ? integers_within(to_, *range) : decimals_within(to_, *range));
}

} // namespace baton::grammar
