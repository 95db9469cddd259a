// str, repr and JSON. Bytes from a marked string keep their mark; the punctuation around them is
// trusted.
#include "runtime/text/template/print.hpp"

#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace baton::text::jinja {

namespace {

bool is_printable(const code_point& c) {
  if (!c.is_valid) {
    return false;
  }
  const char32_t n = c.number;
  const bool is_format = n == 0xAD || (n >= 0x200B && n <= 0x200F) ||
                         (n >= 0x202A && n <= 0x202E) || (n >= 0x2060 && n <= 0x206F) ||
                         n == 0xFEFF;
  const bool is_private = (n >= 0xE000 && n <= 0xF8FF) || n >= 0xE0000;
  return n == ' ' || (n > 0x20 && n < 0x7F) ||
         (n > 0xA0 && !is_space(n) && !is_format && !is_private);
}

std::string repr_escape(const code_point& c, char quote) {
  switch (c.number) {
  case '\\':
    return "\\\\";
  case '\n':
    return "\\n";
  case '\r':
    return "\\r";
  case '\t':
    return "\\t";
  default:
    break;
  }
  if (c.number == static_cast<unsigned char>(quote)) {
    return {'\\', quote};
  }
  const auto n = static_cast<std::uint32_t>(c.number);
  return n < 0x100     ? fmt::format("\\x{:02x}", n)
         : n < 0x10000 ? fmt::format("\\u{:04x}", n)
                       : fmt::format("\\U{:08x}", n);
}

bool append_text_repr(interpreter& run, marked_text& out, const marked_text& text) {
  const bool has_single = text.text().find('\'') != std::string::npos;
  const char quote = has_single && text.text().find('"') == std::string::npos ? '"' : '\'';
  if (!run.append_trusted(out, {&quote, 1})) {
    return false;
  }
  std::size_t plain = 0; // start of text that needs no escape
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = code_point_at(text.text(), at);
    if (!is_printable(c) || c.number == '\\' || c.number == static_cast<unsigned char>(quote)) {
      if (!run.append(out, text, plain, at) || !run.spend(1)) {
        return false;
      }
      out.append_as(repr_escape(c, quote), text, at, at + c.bytes);
      plain = at + c.bytes;
    }
    at += c.bytes;
  }
  return run.append(out, text, plain, text.size()) && run.append_trusted(out, {&quote, 1});
}

bool append_list_repr(interpreter& run, marked_text& out, const value& v) {
  const auto& items = v.as_list();
  bool is_good = run.append_trusted(out, v.is_tuple() ? "(" : "[");
  for (std::size_t i = 0; is_good && i < items.size(); ++i) {
    is_good = (i == 0 || run.append_trusted(out, ", ")) && append_repr(run, out, items[i]);
  }
  const std::string_view close = !v.is_tuple() ? "]" : items.size() == 1 ? ",)" : ")";
  return is_good && run.append_trusted(out, close);
}

bool append_map_repr(interpreter& run, marked_text& out, const value& v) {
  bool is_good = run.append_trusted(out, "{");
  bool is_first = true;
  for (const map_entry& e : v.as_map()) {
    is_good = is_good && (is_first || run.append_trusted(out, ", ")) &&
              append_repr(run, out, e.key) && run.append_trusted(out, ": ") &&
              append_repr(run, out, e.item);
    is_first = false;
  }
  return is_good && run.append_trusted(out, "}");
}

// Python's json.dumps escapes: with ensure_ascii=False only quotes, backslashes and controls.
std::string json_escape(const code_point& c, bool is_ascii) {
  static constexpr std::string_view from = "\"\\\n\r\t\f\b";
  static constexpr std::string_view to = "\"\\nrtfb";
  const auto n = static_cast<std::uint32_t>(c.number);
  if (n < 0x80) {
    const auto i = from.find(static_cast<char>(n));
    if (i != std::string_view::npos) {
      return {'\\', to[i]};
    }
  }
  if (n < 0x20 || (is_ascii && n > 0x7E && n < 0x10000 && n != 0x7F)) {
    return fmt::format("\\u{:04x}", n);
  }
  if (is_ascii && n >= 0x10000) {
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((n - 0x10000) >> 10),
                       0xDC00 + ((n - 0x10000) & 0x3FF));
  }
  return {};
}

bool append_json_text(interpreter& run, marked_text& out, const marked_text& text, bool is_ascii) {
  if (!run.append_trusted(out, "\"")) {
    return false;
  }
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = code_point_at(text.text(), at);
    const std::string escaped = json_escape(c, is_ascii);
    if (!escaped.empty()) {
      if (!run.append(out, text, plain, at) || !run.spend(1)) {
        return false;
      }
      out.append_as(escaped, text, at, at + c.bytes);
      plain = at + c.bytes;
    }
    at += c.bytes;
  }
  return run.append(out, text, plain, text.size()) && run.append_trusted(out, "\"");
}

// JSON of one value; `level` counts the enclosing containers, for the indentation.
class json_writer {
public:
  json_writer(interpreter& run, marked_text& out, const json_style& style)
      : run_(run), out_(out), style_(style) {}

  bool write(const value& v, std::int64_t level);

private:
  bool write_list(const value& v, std::int64_t level);
  bool write_map(const value& v, std::int64_t level);
  bool write_key(const value& key);
  bool write_text(std::string_view text) { return run_.append_trusted(out_, text); }
  bool start_line(std::int64_t level) {
    return !style_.indent ||
           (write_text("\n") && run_.append_repeated(out_, *style_.indent, level));
  }

  interpreter& run_;
  marked_text& out_;
  const json_style& style_;
};

std::string json_number(double d) {
  return std::isnan(d)   ? "NaN"
         : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity")
                         : python_float(d);
}

bool json_writer::write(const value& v, std::int64_t level) {
  if (!run_.spend(1)) {
    return false;
  }
  switch (v.type()) {
  case value_kind::none:
    return write_text("null");
  case value_kind::boolean:
    return write_text(v.as_boolean() ? "true" : "false");
  case value_kind::integer:
    return write_text(fmt::format("{}", v.as_integer()));
  case value_kind::real:
    return write_text(json_number(v.as_real()));
  case value_kind::string:
    return append_json_text(run_, out_, v.as_text(), style_.is_ascii);
  case value_kind::list:
    return write_list(v, level);
  case value_kind::map:
    return write_map(v, level);
  default:
    return run_.refuse("a {} has no JSON form", name_of(v.type()));
  }
}

bool json_writer::write_list(const value& v, std::int64_t level) {
  const auto& items = v.as_list();
  if (items.empty()) {
    return write_text("[]");
  }
  bool is_good = write_text("[");
  for (std::size_t i = 0; is_good && i < items.size(); ++i) {
    is_good = (i == 0 || run_.append(out_, style_.item_separator)) && start_line(level + 1) &&
              write(items[i], level + 1);
  }
  return is_good && start_line(level) && write_text("]");
}

bool json_writer::write_key(const value& key) {
  if (key.is(value_kind::string)) {
    return append_json_text(run_, out_, key.as_text(), style_.is_ascii);
  }
  return write_text("\"") && write(key, 0) && write_text("\"");
}

bool json_writer::write_map(const value& v, std::int64_t level) {
  const auto& entries = v.as_map();
  if (entries.empty()) {
    return write_text("{}");
  }
  std::vector<const map_entry*> order;
  for (const map_entry& e : entries) {
    order.push_back(&e);
  }
  if (style_.sorts_keys) {
    const bool has_others = std::any_of(entries.begin(), entries.end(), [](const map_entry& e) {
      return !e.key.is(value_kind::string);
    });
    if (has_others || !run_.spend(entries.size() * 16)) {
      return run_.refuse("sort_keys needs strings as keys");
    }
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return a->key.as_text().text() < b->key.as_text().text();
    });
  }
  bool is_good = write_text("{");
  for (std::size_t i = 0; is_good && i < order.size(); ++i) {
    is_good = (i == 0 || run_.append(out_, style_.item_separator)) && start_line(level + 1) &&
              write_key(order[i]->key) && run_.append(out_, style_.key_separator) &&
              write(order[i]->item, level + 1);
  }
  return is_good && start_line(level) && write_text("}");
}

} // namespace

std::string python_float(double d) {
  if (std::isnan(d)) {
    return "nan";
  }
  if (std::isinf(d)) {
    return d < 0 ? "-inf" : "inf";
  }
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::string sign = text.starts_with('-') ? "-" : "";
  text.remove_prefix(sign.size());
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::size_t digits_at = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  std::string digits(text.substr(0, e));
  std::erase(digits, '.');
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    digits = count > 1 ? fmt::format("{}.{}", digits[0], digits.substr(1)) : digits;
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    return fmt::format("{}0.{}{}", sign, std::string(static_cast<std::size_t>(-exponent - 1), '0'),
                       digits);
  }
  const auto before_point = exponent + 1;
  if (count <= before_point) {
    const auto zeros = before_point - count;
    return fmt::format("{}{}{}.0", sign, digits, std::string(static_cast<std::size_t>(zeros), '0'));
  }
  const auto whole = static_cast<std::size_t>(before_point);
  return fmt::format("{}{}.{}", sign, digits.substr(0, whole), digits.substr(whole));
}

bool append_text(interpreter& run, marked_text& out, const value& v) {
  if (v.is(value_kind::string)) {
    return run.append(out, v.as_text());
  }
  return v.is(value_kind::undefined) || append_repr(run, out, v);
}

bool append_repr(interpreter& run, marked_text& out, const value& v) {
  switch (v.type()) {
  case value_kind::undefined:
    return run.append_trusted(out, "Undefined");
  case value_kind::none:
    return run.append_trusted(out, "None");
  case value_kind::boolean:
    return run.append_trusted(out, v.as_boolean() ? "True" : "False");
  case value_kind::integer:
    return run.append_trusted(out, fmt::format("{}", v.as_integer()));
  case value_kind::real:
    return run.append_trusted(out, python_float(v.as_real()));
  case value_kind::string:
    return append_text_repr(run, out, v.as_text());
  case value_kind::list:
    return append_list_repr(run, out, v);
  case value_kind::map:
    return append_map_repr(run, out, v);
  case value_kind::callable:
    return run.append_trusted(out, fmt::format("<function {}>", v.as_callable().name));
  case value_kind::namespace_object: // may refer to itself, so its attributes are not followed
    return run.append_trusted(out, "<Namespace>");
  case value_kind::loop_object:
    return run.append_trusted(out, "<LoopContext>");
  }
  return false;
}

maybe to_text(interpreter& run, const value& v) {
  if (v.is(value_kind::string)) {
    return v;
  }
  marked_text text;
  return append_text(run, text, v) ? run.make_text(std::move(text)) : std::nullopt;
}

bool append_json(interpreter& run, marked_text& out, const value& v, const json_style& style) {
  return json_writer(run, out, style).write(v, 0);
}

} // namespace baton::text::jinja
