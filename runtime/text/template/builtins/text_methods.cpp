// The methods of strings.
#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/print.hpp"
#include "runtime/text/template/printf_format.hpp"
#include "runtime/text/template/text_operations.hpp"
#include "runtime/text/template/values/text_search.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>

namespace baton::text::jinja {

namespace {

template <maybe (*Change)(interpreter&, const marked_text&)>
maybe changed(interpreter& run, const value& self, const bound_arguments&) {
  return Change(run, self.as_text());
}

template <bool Left, bool Right>
maybe stripped(interpreter& run, const value& self, const bound_arguments& args) {
  const auto set = text_argument(run, args[0]);
  return set ? strip(run, self.as_text(), *set, {.left = Left, .right = Right}) : std::nullopt;
}

template <bool FromRight>
maybe method_split(interpreter& run, const value& self, const bound_arguments& args) {
  const auto separator = text_argument(run, args[0]);
  const auto splits_max = separator ? whole_argument(run, args[1], -1) : std::nullopt;
  const auto pieces = splits_max
                          ? split(run, self.as_text().text(), *separator, *splits_max, FromRight)
                          : std::nullopt;
  return pieces ? list_of(run, self.as_text(), *pieces) : std::nullopt;
}

maybe method_splitlines(interpreter& run, const value& self, const bound_arguments& args) {
  const marked_text& text = self.as_text();
  if (!run.spend_bytes(text.size() * 4)) {
    return std::nullopt;
  }
  return list_of(run, text, lines_of(text.text(), flag_argument(args[0], false)));
}

// (before, separator, after)
template <bool FromRight>
maybe method_partition(interpreter& run, const value& self, const bound_arguments& args) {
  const marked_text& text = self.as_text();
  const auto separator = text_argument(run, args[0]);
  if (!separator || !*separator || (*separator)->empty()) {
    return separator ? maybe(run.fail("partition needs a separator")) : std::nullopt;
  }
  const auto pieces = split(run, text.text(), *separator, 1, FromRight);
  if (!pieces) {
    return std::nullopt;
  }
  const std::size_t size = text.size();
  ranges three =
      FromRight ? ranges{{0, 0}, {0, 0}, {0, size}} : ranges{{0, size}, {size, size}, {size, size}};
  if (pieces->size() == 2) {
    three = {(*pieces)[0], {(*pieces)[0].end, (*pieces)[1].begin}, (*pieces)[1]};
  }
  std::vector<value> items;
  for (const byte_range& part : three) {
    maybe item = run.make_text(text.slice(part.begin, part.end));
    if (!item) {
      return std::nullopt;
    }
    items.push_back(std::move(*item));
  }
  return run.make_list(std::move(items), /*is_tuple=*/true);
}

// The byte range of the characters [start, end), as in a slice.
std::optional<byte_range> window_of(interpreter& run, const std::string& text, const value* start,
                                    const value* end) {
  if (!start && !end) {
    return byte_range{0, text.size()};
  }
  if (!run.spend_bytes(text.size())) {
    return std::nullopt;
  }
  const auto length = static_cast<std::int64_t>(count_code_points(text));
  const auto first = whole_argument(run, start, 0);
  const auto last = first ? whole_argument(run, end, length) : std::nullopt;
  if (!last) {
    return std::nullopt;
  }
  const auto offset = [&](std::int64_t i) {
    const std::int64_t position = std::clamp<std::int64_t>(i < 0 ? i + length : i, 0, length);
    return offset_of(text, static_cast<std::size_t>(position));
  };
  // A start past the end finds not even the empty string; see the callers.
  return *first > length ? byte_range{1, 0} : byte_range{offset(*first), offset(*last)};
}

template <bool AtEnd>
maybe has_affix(interpreter& run, const value& self, const bound_arguments& args) {
  const std::string& text = self.as_text().text();
  const auto window = window_of(run, text, args[1], args[2]);
  if (!window) {
    return std::nullopt;
  }
  const std::vector<value> affixes =
      args[0]->is(value_kind::list) ? args[0]->as_list() : std::vector<value>{*args[0]};
  for (const value& affix : affixes) {
    if (!affix.is(value_kind::string)) {
      return run.fail("startswith and endswith need strings, not {}", name_of(affix.type()));
    }
    if (!run.spend_bytes(affix.as_text().size())) {
      return std::nullopt;
    }
    if (window->begin > window->end) {
      continue;
    }
    const auto part = std::string_view(text).substr(window->begin, window->end - window->begin);
    const std::string& wanted = affix.as_text().text();
    if (AtEnd ? part.ends_with(wanted) : part.starts_with(wanted)) {
      return value::boolean(true);
    }
  }
  return value::boolean(false);
}

// The position in characters. The inner nullopt means not found.
template <bool FromRight>
std::optional<std::optional<std::int64_t>> position_of(interpreter& run, const value& self,
                                                       const bound_arguments& args) {
  const std::string& text = self.as_text().text();
  const auto needle = text_argument(run, args[0]);
  const auto window = needle ? window_of(run, text, args[1], args[2]) : std::nullopt;
  if (!window || !*needle) {
    return window ? run.fail("find needs a string") : std::nullopt;
  }
  if (window->begin > window->end) {
    return std::optional<std::int64_t>();
  }
  const auto part = std::string_view(text).substr(0, window->end);
  std::optional<std::size_t> found;
  if (!FromRight) {
    found = run.spend_bytes(part.size()) ? find_bytes(part, (*needle)->text(), window->begin)
                                         : std::nullopt;
  } else if (const auto last = find_last(run, part, (*needle)->text(), window->end)) {
    found = *last && **last >= window->begin ? *last : std::nullopt;
  }
  if (run.has_failed()) {
    return std::nullopt;
  }
  return found ? std::optional(static_cast<std::int64_t>(count_code_points(part.substr(0, *found))))
               : std::optional<std::int64_t>();
}

template <bool FromRight, bool MustBeThere>
maybe method_find(interpreter& run, const value& self, const bound_arguments& args) {
  const auto position = position_of<FromRight>(run, self, args);
  if (!position) {
    return std::nullopt;
  }
  if (MustBeThere && !*position) {
    return run.fail("substring not found");
  }
  return value::integer(position->value_or(-1));
}

maybe method_count(interpreter& run, const value& self, const bound_arguments& args) {
  const std::string& text = self.as_text().text();
  const auto needle = text_argument(run, args[0]);
  const auto window = needle ? window_of(run, text, args[1], args[2]) : std::nullopt;
  if (!window || !*needle) {
    return window ? maybe(run.fail("count needs a string")) : std::nullopt;
  }
  if (window->begin > window->end || !run.spend_bytes(text.size())) {
    return run.has_failed() ? std::nullopt : maybe(value::integer(0));
  }
  const auto part = std::string_view(text).substr(window->begin, window->end - window->begin);
  if ((*needle)->empty()) {
    return value::integer(static_cast<std::int64_t>(count_code_points(part)) + 1);
  }
  std::int64_t count = 0;
  for (auto at = find_bytes(part, (*needle)->text(), 0); at;
       at = find_bytes(part, (*needle)->text(), *at + (*needle)->size())) {
    ++count;
  }
  return value::integer(count);
}

maybe method_replace(interpreter& run, const value& self, const bound_arguments& args) {
  const auto from = text_argument(run, args[0]);
  const auto to = from ? text_argument(run, args[1]) : std::nullopt;
  const auto count = to ? whole_argument(run, args[2], -1) : std::nullopt;
  if (!count || !*from || !*to) {
    return count ? maybe(run.fail("replace needs two strings")) : std::nullopt;
  }
  return replace(run, self.as_text(), **from, **to, *count);
}

maybe method_join(interpreter& run, const value& self, const bound_arguments& args) {
  const auto items = run.items_of(*args[0]);
  marked_text out;
  for (std::size_t i = 0; items && i < items->size(); ++i) {
    const value& item = (*items)[i];
    if (!item.is(value_kind::string)) {
      return run.fail("join needs strings, item {} is a {}", i, name_of(item.type()));
    }
    if ((i > 0 && !run.append(out, self.as_text())) || !run.append(out, item.as_text())) {
      return std::nullopt;
    }
  }
  return items ? run.make_text(std::move(out)) : std::nullopt;
}

maybe method_format(interpreter& run, const value& self, const bound_arguments& args) {
  return format_braces(run, self.as_text(), *args.all);
}

template <alignment Where>
maybe padded(interpreter& run, const value& self, const bound_arguments& args) {
  const auto width = whole_argument(run, args[0], 0);
  const auto fill = width ? text_argument(run, args[1]) : std::nullopt;
  if (!fill) {
    return std::nullopt;
  }
  const marked_text with = *fill ? **fill : marked_text::trusted(" ");
  if (count_code_points(with.text()) != 1) {
    return run.fail("the fill must be one character");
  }
  return pad(run, self.as_text(), *width, with, Where);
}

maybe method_zfill(interpreter& run, const value& self, const bound_arguments& args) {
  const auto width = whole_argument(run, args[0], 0);
  if (!width) {
    return std::nullopt;
  }
  const marked_text& text = self.as_text();
  const std::size_t sign = text.text().starts_with('-') || text.text().starts_with('+') ? 1 : 0;
  const maybe digits =
      *width < 0 ? self
                 : pad(run, text.slice(sign, text.size()), *width - static_cast<std::int64_t>(sign),
                       marked_text::trusted("0"), alignment::right);
  marked_text out = text.slice(0, *width < 0 ? 0 : sign);
  return digits && run.append(out, digits->as_text()) ? run.make_text(std::move(out))
                                                      : std::nullopt;
}

template <bool AtEnd>
maybe without_affix(interpreter& run, const value& self, const bound_arguments& args) {
  const auto affix = text_argument(run, args[0]);
  if (!affix || !*affix) {
    return affix ? maybe(run.fail("an affix must be a string")) : std::nullopt;
  }
  const marked_text& text = self.as_text();
  const std::string& wanted = (*affix)->text();
  if (!(AtEnd ? text.text().ends_with(wanted) : text.text().starts_with(wanted))) {
    return self;
  }
  return run.make_text(AtEnd ? text.slice(0, text.size() - wanted.size())
                             : text.slice(wanted.size(), text.size()));
}

// True if the text is not empty and all its characters satisfy `Is`.
template <bool (*Is)(char32_t)>
maybe all_are(interpreter& run, const value& self, const bound_arguments&) {
  const std::string& text = self.as_text().text();
  if (!run.spend_bytes(text.size())) {
    return std::nullopt;
  }
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = code_point_at(text, at);
    if (!c.is_valid || !Is(c.number)) {
      return value::boolean(false);
    }
    at += c.bytes;
  }
  return value::boolean(!text.empty());
}

bool is_space_character(char32_t c) {
  return is_space(c);
}
// ASCII only: digits of other scripts do not count.
bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}
// Approximates uncased letters (CJK, Arabic ...): all but spaces, symbols and punctuation.
bool is_letter(char32_t c) {
  if (c < 0x80) {
    return is_cased(c);
  }
  return c == 0xAA || c == 0xBA || is_cased(c) ||
         (c >= 0x2C00 ? !(c >= 0x2E00 && c <= 0x3004) && !(c >= 0x3007 && c <= 0x3020) &&
                            !(c >= 0xD800 && c <= 0xF8FF) && !(c >= 0xFE00 && c <= 0xFE6F) &&
                            !(c >= 0xFF00 && c <= 0xFF20) && c < 0x1F000
                      : c >= 0xC0 && c != 0xD7 && c != 0xF7 && !(c >= 0x2000 && c <= 0x2BFF) &&
                            !is_space(c));
}
bool is_letter_or_digit(char32_t c) {
  return is_letter(c) || is_digit(c);
}

template <letter_case Case>
maybe method_has_case(interpreter& run, const value& self, const bound_arguments&) {
  if (!run.spend_bytes(self.as_text().size() * 2)) {
    return std::nullopt;
  }
  return value::boolean(has_only_case(self.as_text().text(), Case));
}

constexpr builtin text_methods_table[] = {
    {"capitalize", "", 0, changed<capitalize>},
    {"center", "width,fillchar", 1, padded<alignment::center>},
    {"count", "sub,start,end", 1, method_count},
    {"endswith", "suffix,start,end", 1, has_affix<true>},
    {"find", "sub,start,end", 1, method_find<false, false>},
    {"format", "*", 0, method_format},
    {"index", "sub,start,end", 1, method_find<false, true>},
    {"isalnum", "", 0, all_are<is_letter_or_digit>},
    {"isalpha", "", 0, all_are<is_letter>},
    {"isdecimal", "", 0, all_are<is_digit>},
    {"isdigit", "", 0, all_are<is_digit>},
    {"islower", "", 0, method_has_case<letter_case::lower>},
    {"isnumeric", "", 0, all_are<is_digit>},
    {"isspace", "", 0, all_are<is_space_character>},
    {"isupper", "", 0, method_has_case<letter_case::upper>},
    {"join", "iterable", 1, method_join},
    {"ljust", "width,fillchar", 1, padded<alignment::left>},
    {"lower", "", 0, changed<to_lower>},
    {"lstrip", "chars", 0, stripped<true, false>},
    {"partition", "sep", 1, method_partition<false>},
    {"removeprefix", "prefix", 1, without_affix<false>},
    {"removesuffix", "suffix", 1, without_affix<true>},
    {"replace", "old,new,count", 2, method_replace},
    {"rfind", "sub,start,end", 1, method_find<true, false>},
    {"rindex", "sub,start,end", 1, method_find<true, true>},
    {"rjust", "width,fillchar", 1, padded<alignment::right>},
    {"rpartition", "sep", 1, method_partition<true>},
    {"rsplit", "sep,maxsplit", 0, method_split<true>},
    {"rstrip", "chars", 0, stripped<false, true>},
    {"split", "sep,maxsplit", 0, method_split<false>},
    {"splitlines", "keepends", 0, method_splitlines},
    {"startswith", "prefix,start,end", 1, has_affix<false>},
    {"strip", "chars", 0, stripped<true, true>},
    {"swapcase", "", 0, changed<swap_case>},
    {"title", "", 0, changed<title_words>},
    {"upper", "", 0, changed<to_upper>},
    {"zfill", "width", 1, method_zfill},
};

} // namespace

std::span<const builtin> text_methods() noexcept {
  return text_methods_table;
}

} // namespace baton::text::jinja
