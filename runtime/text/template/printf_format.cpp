// Parses and fills placeholders.
#include "runtime/text/template/printf_format.hpp"

#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/text_operations.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace baton::text::jinja {

namespace {

// No prompt aligns to more columns, and no float has more meaningful digits.
constexpr std::int64_t width_max = 1000;

struct placeholder {
  bool is_left = false;
  bool is_zero_padded = false;
  bool has_plus = false;
  bool has_space = false;
  bool has_alternate = false;
  std::int64_t width = 0;
  std::optional<std::int64_t> precision;
  char conversion = 0;
  std::optional<byte_range> key; // of %(key)s
};

// Reads the placeholder after the '%' at `at` and advances `at`.
std::optional<placeholder> read_placeholder(interpreter& run, std::string_view text,
                                            std::size_t& at) {
  placeholder p;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto number = [&] {
    std::int64_t n = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at) {
      n = std::min<std::int64_t>(n * 10 + (peek() - '0'), width_max + 1);
    }
    return n;
  };
  if (peek() == '(') {
    const std::size_t close = std::min(text.find(')', at), text.size());
    p.key = byte_range{at + 1, close};
    at = std::min(close + 1, text.size());
  }
  for (; std::string_view("-0+ #").find(peek()) != std::string_view::npos && peek() != '\0'; ++at) {
    p.is_left |= peek() == '-';
    p.is_zero_padded |= peek() == '0';
    p.has_plus |= peek() == '+';
    p.has_space |= peek() == ' ';
    p.has_alternate |= peek() == '#';
  }
  p.width = number();
  if (peek() == '.') {
    ++at;
    p.precision = number();
  }
  p.conversion = peek();
  ++at;
  if (at > text.size()) {
    return run.fail("incomplete format");
  }
  if (p.has_alternate || p.width > width_max || p.precision.value_or(0) > width_max) {
    return run.fail("a format with '#' or a width beyond {} is not supported", width_max);
  }
  return p;
}

std::string real_digits(double d, char conversion, int precision) {
  if (!std::isfinite(d)) {
    return std::isnan(d) ? "nan" : "inf";
  }
  return conversion == 'f'   ? fmt::format("{:.{}f}", d, precision)
         : conversion == 'e' ? fmt::format("{:.{}e}", d, precision)
                             : fmt::format("{:.{}g}", d, precision == 0 ? 1 : precision);
}

// The digits of a number, without its sign. nullopt if the conversion does not fit the value.
std::optional<std::string> digits_of(const placeholder& p, const value& v) {
  if (!is_number(v)) {
    return std::nullopt;
  }
  switch (p.conversion) {
  case 'f':
  case 'e':
  case 'g':
    return real_digits(std::abs(as_double(v)), p.conversion,
                       static_cast<int>(p.precision.value_or(6)));
  default:
    break;
  }
  auto whole = as_whole(v);
  if (!whole && (p.conversion == 'd' || p.conversion == 'i') && std::abs(v.as_real()) < 9e18) {
    whole = static_cast<std::int64_t>(v.as_real());
  }
  if (!whole) {
    return std::nullopt;
  }
  const std::uint64_t size =
      *whole < 0 ? 0 - static_cast<std::uint64_t>(*whole) : static_cast<std::uint64_t>(*whole);
  std::string digits = p.conversion == 'x'   ? fmt::format("{:x}", size)
                       : p.conversion == 'X' ? fmt::format("{:X}", size)
                       : p.conversion == 'o' ? fmt::format("{:o}", size)
                                             : fmt::format("{}", size);
  const auto wanted = static_cast<std::size_t>(p.precision.value_or(0));
  return digits.size() < wanted ? std::string(wanted - digits.size(), '0') + digits : digits;
}

bool append_number(interpreter& run, marked_text& out, const placeholder& p, const value& v) {
  auto digits = digits_of(p, v);
  if (!digits) {
    return run.refuse("%{} does not take a {}", p.conversion, name_of(v.type()));
  }
  const bool is_negative = std::signbit(as_double(v));
  const std::string sign = is_negative ? "-" : p.has_plus ? "+" : p.has_space ? " " : "";
  const auto width = static_cast<std::size_t>(p.width);
  const std::size_t length = sign.size() + digits->size();
  const std::string gap(width > length ? width - length : 0,
                        p.is_zero_padded && !p.is_left ? '0' : ' ');
  const bool gap_is_inside = p.is_zero_padded && !p.is_left;
  return run.append_trusted(out, gap_is_inside ? sign + gap + *digits
                                 : p.is_left   ? sign + *digits + gap
                                               : gap + sign + *digits);
}

bool append_string(interpreter& run, marked_text& out, const placeholder& p, const value& v) {
  marked_text text;
  if (!(p.conversion == 'r' ? append_repr(run, text, v) : append_text(run, text, v))) {
    return false;
  }
  if (p.precision) {
    text = text.slice(0, offset_of(text.text(), static_cast<std::size_t>(*p.precision)));
  }
  const maybe padded = pad(run, text, p.width, marked_text::trusted(" "),
                           p.is_left ? alignment::left : alignment::right);
  return padded && run.append(out, padded->as_text());
}

bool append_character(interpreter& run, marked_text& out, const value& v) {
  if (v.is(value_kind::string) && count_code_points(v.as_text().text()) == 1) {
    return run.append(out, v.as_text());
  }
  const auto number = as_whole(v);
  if (!number || *number < 0 || *number > 0x10FFFF || (*number >= 0xD800 && *number < 0xE000)) {
    return run.refuse("%c needs a character");
  }
  std::string text;
  append_utf8(text, static_cast<char32_t>(*number));
  return run.append_trusted(out, text);
}

bool append_item(interpreter& run, marked_text& out, const placeholder& p, const value& v) {
  switch (p.conversion) {
  case 's':
  case 'r':
    return append_string(run, out, p, v);
  case 'd':
  case 'i':
  case 'f':
  case 'e':
  case 'g':
  case 'x':
  case 'X':
  case 'o':
    return append_number(run, out, p, v);
  case 'c':
    return append_character(run, out, v);
  default:
    return run.refuse("%{} is not supported", p.conversion);
  }
}

} // namespace

maybe format_printf(interpreter& run, const marked_text& format, const std::vector<value>& items,
                    bool is_lenient) {
  const std::string_view text = format.text();
  marked_text out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t percent = std::min(text.find('%', at), text.size());
    if (!run.append(out, format, at, percent)) {
      return std::nullopt;
    }
    if (percent == text.size()) {
      break;
    }
    at = percent + 1;
    const auto p = read_placeholder(run, text, at);
    if (!p) {
      return std::nullopt;
    }
    if (p->conversion == '%') {
      out.append_trusted("%");
      continue;
    }
    const value* item = nullptr;
    if (p->key) {
      const bool is_map = items.size() == 1 && items[0].is(value_kind::map);
      item =
          is_map ? items[0].find(text.substr(p->key->begin, p->key->end - p->key->begin)) : nullptr;
    } else if (used < items.size()) {
      item = &items[used++];
    }
    if (!item) {
      return run.fail("not enough arguments for the format");
    }
    if (!append_item(run, out, *p, *item)) {
      return std::nullopt;
    }
  }
  if (used < items.size() && !is_lenient) {
    return run.fail("not all arguments of the format are used");
  }
  return run.make_text(std::move(out));
}

maybe format_braces(interpreter& run, const marked_text& format, const arguments& all) {
  const std::string_view text = format.text();
  marked_text out;
  std::size_t next = 0; // of the automatic numbers
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
    const bool is_double = brace + 1 < text.size() && text[brace + 1] == text[brace];
    if (!run.append(out, format, at, brace + (is_double ? 1 : 0))) {
      return std::nullopt;
    }
    at = brace + 2;
    if (brace == text.size() || is_double) {
      continue;
    }
    const std::size_t close = text.find('}', brace);
    if (text[brace] == '}' || close == std::string_view::npos) {
      return run.fail("a single '{}' in a format", text[brace]);
    }
    std::string_view field = text.substr(brace + 1, close - brace - 1);
    const bool is_repr = field.ends_with("!r");
    field.remove_suffix(is_repr || field.ends_with("!s") ? 2 : 0);
    if (field.find_first_of(":.![{") != std::string_view::npos) {
      return run.fail("the format '{{{}}}' is not supported", field);
    }
    const value* item = nullptr;
    std::size_t index = 0;
    const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), index);
    if (field.empty()) {
      index = next++;
    }
    if (field.empty() || (code == std::errc{} && end == field.data() + field.size())) {
      item = index < all.positional.size() ? &all.positional[index] : nullptr;
    } else {
      for (const auto& [name, candidate] : all.named) {
        item = name.text() == field ? &candidate : item;
      }
    }
    if (!item) {
      return run.fail("the format needs an argument '{}'", field);
    }
    if (!(is_repr ? append_repr(run, out, *item) : append_text(run, out, *item))) {
      return std::nullopt;
    }
    at = close + 1;
  }
  return run.make_text(std::move(out));
}

} // namespace baton::text::jinja
