// Filters on text and numbers.
#include "runtime/text/template/builtins/word_wrap.hpp"
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/printf_format.hpp"
#include "runtime/text/template/text_operations.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace baton::text::jinja {

namespace {

// Python's int(text, base): surrounding spaces, a sign, underscores between digits.
std::optional<std::int64_t> parse_whole(std::string_view text, std::int64_t base) {
  const byte_range kept = strip_range(text, nullptr, {});
  std::string digits(text.substr(kept.begin, kept.end - kept.begin));
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) {
    digits.erase(0, 1);
  }
  const auto letter = digits.size() > 1 ? static_cast<char>(digits[1] | 0x20) : ' ';
  const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (digits.starts_with('0') && prefix != 0 && (base == prefix || base == 0)) {
    digits.erase(0, 2);
    base = prefix;
  }
  if (digits.empty() || digits.front() == '_' || digits.back() == '_' || base < 0 || base > 36 ||
      base == 1) {
    return std::nullopt;
  }
  std::erase(digits, '_');
  digits.insert(0, is_negative ? "-" : "");
  std::int64_t n = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), n,
                                           base == 0 ? 10 : static_cast<int>(base));
  const bool is_good = code == std::errc{} && end == digits.data() + digits.size() &&
                       (is_negative || digits[0] != '-');
  return is_good ? std::optional(n) : std::nullopt;
}

std::optional<double> parse_real(std::string_view text) {
  const byte_range kept = strip_range(text, nullptr, {});
  std::string_view digits = text.substr(kept.begin, kept.end - kept.begin);
  if (digits.starts_with('+')) {
    digits.remove_prefix(1);
    if (digits.starts_with('-')) {
      return std::nullopt;
    }
  }
  double d = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), d);
  const bool is_good = code == std::errc{} && end == digits.data() + digits.size();
  return is_good ? std::optional(d) : std::nullopt;
}

std::optional<double> real_of(const value& v) {
  if (is_number(v)) {
    return as_double(v);
  }
  return v.is(value_kind::string) ? parse_real(v.as_text().text()) : std::nullopt;
}

// If |x| is below it, x fits in 64 bits.
constexpr double whole_bound = 9223372036854774784.0;

maybe filter_int(interpreter& run, const value& self, const bound_arguments& args) {
  const auto base = whole_argument(run, args[1], 10);
  if (!base || !run.spend_bytes(self.is(value_kind::string) ? self.as_text().size() : 0)) {
    return std::nullopt;
  }
  auto whole = as_whole(self);
  if (self.is(value_kind::string)) {
    whole = parse_whole(self.as_text().text(), *base);
  }
  if (self.is(value_kind::undefined)) {
    return run.fail("{}", self.about());
  }
  const auto real = whole ? std::nullopt : real_of(self);
  if (real && std::abs(*real) <= whole_bound) {
    whole = static_cast<std::int64_t>(*real);
  }
  return whole ? value::integer(*whole) : args[0] ? *args[0] : value::integer(0);
}

maybe filter_float(interpreter& run, const value& self, const bound_arguments& args) {
  if (self.is(value_kind::undefined)) {
    return run.fail("{}", self.about());
  }
  const auto real = real_of(self);
  return real ? value::real(*real) : args[0] ? *args[0] : value::real(0);
}

maybe filter_abs(interpreter& run, const value& self, const bound_arguments&) {
  const bool is_negative = is_number(self) && std::signbit(as_double(self));
  return signed_value(run, self, is_negative);
}

// Python's round(): exact halves go to the even digit, as in printing with that precision.
double round_digits(double d, int digits) {
  if (digits >= 0) {
    const std::string text = fmt::format("{:.{}f}", d, std::min(digits, 400));
    double rounded = d;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double unit = std::pow(10.0, std::min(-digits, 400));
  return std::isfinite(unit) ? std::nearbyint(d / unit) * unit : 0;
}

maybe filter_round(interpreter& run, const value& self, const bound_arguments& args) {
  const auto precision = whole_argument(run, args[0], 0);
  const auto method = precision ? text_argument(run, args[1]) : std::nullopt;
  if (!method) {
    return std::nullopt;
  }
  if (!is_number(self)) {
    return run.fail("a {} cannot be rounded", name_of(self.type()));
  }
  const std::string name = *method ? (*method)->text() : "common";
  const int digits = static_cast<int>(std::clamp<std::int64_t>(*precision, -400, 400));
  if (name == "common") {
    const auto whole = as_whole(self);
    if (whole && digits >= 0) {
      return value::integer(*whole);
    }
    const double rounded = round_digits(as_double(self), digits);
    return whole ? value::integer(static_cast<std::int64_t>(rounded)) : value::real(rounded);
  }
  if (name != "ceil" && name != "floor") {
    return run.fail("method must be common, ceil or floor");
  }
  const double unit = std::pow(10.0, digits);
  const double scaled = as_double(self) * unit;
  return value::real((name == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

// A filter that operates on str(self).
template <maybe (*Change)(interpreter&, const marked_text&)>
maybe on_text(interpreter& run, const value& self, const bound_arguments&) {
  const maybe text = to_text(run, self);
  return text ? Change(run, text->as_text()) : std::nullopt;
}

// `string`, and `safe`: nothing is escaped automatically, so a safe string is a plain one.
maybe filter_string(interpreter& run, const value& self, const bound_arguments&) {
  return to_text(run, self);
}

maybe filter_trim(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe text = to_text(run, self);
  const auto set = text ? text_argument(run, args[0]) : std::nullopt;
  return set ? strip(run, text->as_text(), *set, {}) : std::nullopt;
}

maybe filter_replace(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe text = to_text(run, self);
  const maybe from = text ? to_text(run, *args[0]) : std::nullopt;
  const maybe to = from ? to_text(run, *args[1]) : std::nullopt;
  const auto count = to ? whole_argument(run, args[2], -1) : std::nullopt;
  return count ? replace(run, text->as_text(), from->as_text(), to->as_text(), *count)
               : std::nullopt;
}

// For filters that do not convert their operand to a string.
maybe require_text(interpreter& run, const value& self) {
  return self.is(value_kind::string) ? maybe(self)
                                     : run.fail("a str is needed, not {}", name_of(self.type()));
}

maybe filter_indent(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe text = require_text(run, self);
  marked_text indent;
  if (args[0] && args[0]->is(value_kind::string)) {
    indent = args[0]->as_text();
  } else {
    const auto width = whole_argument(run, args[0], 4);
    if (!width || !run.append_repeated(indent, marked_text::trusted(" "), *width)) {
      return std::nullopt;
    }
  }
  if (!text || !run.spend_bytes(text->as_text().size())) {
    return std::nullopt;
  }
  const bool indents_first = flag_argument(args[1], false);
  const bool indents_blank = flag_argument(args[2], false);
  // As in jinja2, one newline is added first, so that a last empty line counts.
  marked_text all = text->as_text();
  all.append_trusted("\n");
  marked_text out;
  bool is_first = true;
  for (const byte_range& line : lines_of(all.text(), /*keeps_ends=*/false)) {
    const bool is_indented = is_first ? indents_first : indents_blank || line.begin < line.end;
    if ((!is_first && !run.append_trusted(out, "\n")) ||
        (is_indented && !run.append(out, indent)) || !run.append(out, all, line.begin, line.end)) {
      return std::nullopt;
    }
    is_first = false;
  }
  return run.make_text(std::move(out));
}

maybe filter_wordcount(interpreter& run, const value& self, const bound_arguments&) {
  const maybe text = to_text(run, self);
  if (!text || !run.spend_bytes(text->as_text().size())) {
    return std::nullopt;
  }
  std::int64_t count = 0;
  bool is_inside = false;
  const std::string& all = text->as_text().text();
  for (std::size_t at = 0; at < all.size();) {
    const code_point c = code_point_at(all, at);
    const bool is_word = c.is_valid && is_word_character(c.number);
    count += is_word && !is_inside ? 1 : 0;
    is_inside = is_word;
    at += c.bytes;
  }
  return value::integer(count);
}

maybe filter_center(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe text = to_text(run, self);
  const auto width = text ? whole_argument(run, args[0], 80) : std::nullopt;
  return width ? pad(run, text->as_text(), *width, marked_text::trusted(" "), alignment::center)
               : std::nullopt;
}

maybe filter_truncate(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe text = require_text(run, self);
  const auto length = text ? whole_argument(run, args[0], 255) : std::nullopt;
  const auto end = length ? text_argument(run, args[2]) : std::nullopt;
  const auto leeway = end ? whole_argument(run, args[3], 5) : std::nullopt;
  if (!leeway || !run.spend_bytes(text->as_text().size())) {
    return std::nullopt;
  }
  const marked_text ending = *end ? **end : marked_text::trusted("...");
  const auto size = static_cast<std::int64_t>(count_code_points(text->as_text().text()));
  const auto end_size = static_cast<std::int64_t>(count_code_points(ending.text()));
  if (*length < end_size || *leeway < 0) {
    return run.fail("truncate: the length is shorter than the ending");
  }
  if (size <= *leeway || size - *leeway <= *length) {
    return text;
  }
  std::size_t keep =
      offset_of(text->as_text().text(), static_cast<std::size_t>(*length - end_size));
  if (!flag_argument(args[1], false)) {
    const std::size_t space = text->as_text().text().substr(0, keep).rfind(' ');
    keep = space == std::string::npos ? keep : space;
  }
  marked_text out = text->as_text().slice(0, keep);
  out.append(ending);
  return run.make_text(std::move(out));
}

maybe filter_format(interpreter& run, const value& self, const bound_arguments& args) {
  const maybe text = to_text(run, self);
  if (!text) {
    return std::nullopt;
  }
  if (args.all->named.empty()) {
    return format_printf(run, text->as_text(), args.all->positional, /*is_lenient=*/false);
  }
  if (!args.all->positional.empty()) {
    return run.fail("format takes positional or named arguments, not both");
  }
  std::vector<map_entry> entries;
  for (const auto& [name, item] : args.all->named) {
    entries.push_back({value::marked(name), item});
  }
  const maybe map = run.make_map(std::move(entries));
  return map ? format_printf(run, text->as_text(), {*map}, /*is_lenient=*/true) : std::nullopt;
}

// Hugging Face's tojson: json.dumps with ensure_ascii=False, without escapes for HTML.
maybe filter_tojson(interpreter& run, const value& self, const bound_arguments& args) {
  json_style style;
  style.is_ascii = flag_argument(args[0], false);
  style.sorts_keys = flag_argument(args[3], false);
  if (args[1] && args[1]->is(value_kind::string)) {
    style.indent = args[1]->as_text();
  } else if (args[1] && !args[1]->is(value_kind::none)) {
    const auto width = whole_argument(run, args[1], 0);
    if (!width || !run.append_repeated(style.indent.emplace(), marked_text::trusted(" "), *width)) {
      return std::nullopt;
    }
  }
  style.item_separator = marked_text::trusted(style.indent ? "," : ", ");
  style.key_separator = marked_text::trusted(": ");
  if (args[2] && !args[2]->is(value_kind::none)) {
    const auto separators = run.items_of(*args[2]);
    if (!separators) {
      return std::nullopt;
    }
    if (separators->size() != 2 || !(*separators)[0].is(value_kind::string) ||
        !(*separators)[1].is(value_kind::string)) {
      return run.fail("separators must be two strings");
    }
    style.item_separator = (*separators)[0].as_text();
    style.key_separator = (*separators)[1].as_text();
  }
  marked_text out;
  return append_json(run, out, self, style) ? run.make_text(std::move(out)) : std::nullopt;
}

maybe filter_default(interpreter&, const value& self, const bound_arguments& args) {
  const bool is_missing =
      self.is(value_kind::undefined) || (flag_argument(args[1], false) && !is_true(self));
  return !is_missing ? self : args[0] ? *args[0] : value::trusted("");
}

maybe filter_filesizeformat(interpreter& run, const value& self, const bound_arguments& args) {
  const auto bytes = real_of(self);
  if (!bytes) {
    return run.fail("a {} is not a number of bytes", name_of(self.type()));
  }
  static constexpr std::string_view letters = "kMGTPEZY";
  const bool is_binary = flag_argument(args[0], false);
  const double base = is_binary ? 1024 : 1000;
  if (*bytes < base) {
    return value::trusted(*bytes == 1 ? "1 Byte"
                                      : fmt::format("{:.0f} Bytes", std::trunc(*bytes) + 0.0));
  }
  double unit = base;
  std::size_t letter = 0;
  for (; letter + 1 < letters.size() && *bytes >= unit * base; ++letter) {
    unit *= base;
  }
  const auto name = is_binary && letter == 0 ? 'K' : letters[letter];
  return value::trusted(
      fmt::format("{:.1f} {}{}B", base * *bytes / (unit * base), name, is_binary ? "i" : ""));
}

constexpr builtin text_filters_table[] = {
    {"abs", "", 0, filter_abs},
    {"capitalize", "", 0, on_text<capitalize>},
    {"center", "width", 0, filter_center},
    {"d", "default_value,boolean", 0, filter_default},
    {"default", "default_value,boolean", 0, filter_default},
    {"filesizeformat", "binary", 0, filter_filesizeformat},
    {"float", "default", 0, filter_float},
    {"format", "*", 0, filter_format},
    {"indent", "width,first,blank", 0, filter_indent},
    {"int", "default,base", 0, filter_int},
    {"lower", "", 0, on_text<to_lower>},
    {"replace", "old,new,count", 2, filter_replace},
    {"round", "precision,method", 0, filter_round},
    {"safe", "", 0, filter_string},
    {"string", "", 0, filter_string},
    {"title", "", 0, on_text<title_filter>},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, filter_trim},
    {"truncate", "length,killwords,end,leeway", 0, filter_truncate},
    {"upper", "", 0, on_text<to_upper>},
    {"wordcount", "", 0, filter_wordcount},
    {"wordwrap", "width,break_long_words,wrapstring,break_on_hyphens", 0, filter_wordwrap},
};

} // namespace

std::span<const builtin> text_filters() noexcept {
  return text_filters_table;
}

} // namespace baton::text::jinja
