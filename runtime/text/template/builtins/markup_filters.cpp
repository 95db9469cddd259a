// Filters that produce text for HTML and URLs.
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/text_operations.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>
#include <array>

namespace baton::text::jinja {

namespace {

maybe escape_markup(interpreter& run, const marked_text& text) {
  static constexpr std::array<std::pair<char, std::string_view>, 5> names = {
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}}};
  marked_text out;
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const auto& [character, name] : names) {
      if (text.text()[at] == character) {
        if (!run.append(out, text, plain, at)) {
          return std::nullopt;
        }
        out.append_as(name, text, at, at + 1);
        plain = at + 1;
      }
    }
  }
  return run.append(out, text, plain, text.size()) ? run.make_text(std::move(out)) : std::nullopt;
}

// No text is marked as escaped, so `forceescape` equals `escape`.
maybe filter_escape(interpreter& run, const value& self, const bound_arguments&) {
  const maybe text = to_text(run, self);
  return text ? escape_markup(run, text->as_text()) : std::nullopt;
}

bool append_attribute(interpreter& run, marked_text& out, const map_entry& e) {
  const maybe name = to_text(run, e.key);
  if (!name) {
    return false;
  }
  if (name->as_text().text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
    return run.refuse("'{}' is not an attribute name", name->as_text().text());
  }
  const maybe key = escape_markup(run, name->as_text());
  const maybe item = key ? to_text(run, e.item) : std::nullopt;
  const maybe escaped = item ? escape_markup(run, item->as_text()) : std::nullopt;
  return escaped && run.append_trusted(out, " ") && run.append(out, key->as_text()) &&
         run.append_trusted(out, "=\"") && run.append(out, escaped->as_text()) &&
         run.append_trusted(out, "\"");
}

maybe filter_xmlattr(interpreter& run, const value& self, const bound_arguments& args) {
  if (!self.is(value_kind::map)) {
    return run.fail("xmlattr needs a dict, not {}", name_of(self.type()));
  }
  marked_text out;
  for (const map_entry& e : self.as_map()) {
    const bool is_left_out = e.item.is(value_kind::none) || e.item.is(value_kind::undefined);
    if (!is_left_out && !append_attribute(run, out, e)) {
      return std::nullopt;
    }
  }
  const bool has_space = flag_argument(args[0], true);
  return run.make_text(has_space || out.empty() ? std::move(out) : out.slice(1, out.size()));
}

bool append_quoted(interpreter& run, marked_text& out, const marked_text& text, bool is_query) {
  static constexpr std::string_view safe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text.text()[at];
    const bool is_safe = safe.find(c) != std::string_view::npos || (c == '/' && !is_query);
    const std::string quoted = is_safe ? std::string(1, c)
                               : is_query && c == ' '
                                   ? "+"
                                   : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    if (!run.check_text_size(out.size() + 3) || !run.spend(1)) {
      return false;
    }
    out.append_as(quoted, text, at, at + 1);
  }
  return true;
}

bool append_pair(interpreter& run, marked_text& out, const value& name, const value& item) {
  const maybe key = to_text(run, name);
  const maybe text = key ? to_text(run, item) : std::nullopt;
  return text && (out.empty() || run.append_trusted(out, "&")) &&
         append_quoted(run, out, key->as_text(), true) && run.append_trusted(out, "=") &&
         append_quoted(run, out, text->as_text(), true);
}

maybe encode_pairs(interpreter& run, const value& pairs) {
  marked_text out;
  for (const value& each : pairs.as_list()) {
    const auto pair = run.items_of(each);
    if (!pair || pair->size() != 2) {
      return pair ? maybe(run.fail("urlencode needs pairs of name and value")) : std::nullopt;
    }
    if (!append_pair(run, out, (*pair)[0], (*pair)[1])) {
      return std::nullopt;
    }
  }
  return run.make_text(std::move(out));
}

maybe filter_urlencode(interpreter& run, const value& self, const bound_arguments&) {
  marked_text out;
  if (!self.is(value_kind::map)) {
    if (self.is(value_kind::list)) {
      return encode_pairs(run, self);
    }
    const maybe text = to_text(run, self);
    return text && append_quoted(run, out, text->as_text(), /*is_query=*/false)
               ? run.make_text(std::move(out))
               : std::nullopt;
  }
  for (const map_entry& e : self.as_map()) {
    if (!append_pair(run, out, e.key, e.item)) {
      return std::nullopt;
    }
  }
  return run.make_text(std::move(out));
}

constexpr builtin markup_filters_table[] = {
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"forceescape", "", 0, filter_escape},
    {"urlencode", "", 0, filter_urlencode},
    {"xmlattr", "autospace", 0, filter_xmlattr},
};

} // namespace

std::span<const builtin> markup_filters() noexcept {
  return markup_filters_table;
}

} // namespace baton::text::jinja
