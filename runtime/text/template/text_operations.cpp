// Strings as Python handles them, with marks kept.
#include "runtime/text/template/text_operations.hpp"

#include "runtime/text/template/operators.hpp"
#include "runtime/text/template/values/text_search.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>

namespace baton::text::jinja {

namespace {

bool is_in_set(std::string_view text, std::size_t at, std::size_t bytes, const marked_text* set) {
  if (!set) {
    const code_point c = code_point_at(text, at);
    return c.is_valid && is_space(c.number);
  }
  const std::string_view all = set->text();
  const std::string_view one = text.substr(at, bytes);
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t length = code_point_at(all, i).bytes;
    if (all.substr(i, length) == one) {
      return true;
    }
    i += length;
  }
  return false;
}

// The start of the character that ends at `end`.
std::size_t character_before(std::string_view text, std::size_t end) {
  for (std::size_t length = 2; length <= std::min<std::size_t>(4, end); ++length) {
    const code_point c = code_point_at(text, end - length);
    if (c.is_valid && c.bytes == length) {
      return end - length;
    }
  }
  return end - 1;
}

// Replaces each code point with `mapped(number, index)`.
template <class Mapped>
maybe map_code_points(interpreter& run, const marked_text& text, Mapped mapped) {
  if (!run.spend_bytes(text.size() * 4)) {
    return std::nullopt;
  }
  marked_text out;
  std::size_t index = 0;
  std::size_t plain = 0; // start of the unchanged part
  for (std::size_t at = 0; at < text.size(); ++index) {
    const code_point c = code_point_at(text.text(), at);
    const char32_t number = c.is_valid ? mapped(c.number, index) : c.number;
    if (number != c.number) {
      std::string encoded;
      append_utf8(encoded, number);
      out.append(text, plain, at);
      out.append_as(encoded, text, at, at + c.bytes);
      plain = at + c.bytes;
    }
    at += c.bytes;
  }
  out.append(text, plain, text.size());
  return run.make_text(std::move(out));
}

std::optional<ranges> split_space(interpreter& run, std::string_view text,
                                  std::int64_t splits_max) {
  ranges pieces;
  std::size_t at = 0;
  while (true) {
    at = strip_range(text.substr(at), nullptr, {.left = true, .right = false}).begin + at;
    if (at >= text.size()) {
      return pieces;
    }
    if (splits_max >= 0 && pieces.size() >= static_cast<std::size_t>(splits_max)) {
      pieces.push_back({at, text.size()});
      return pieces;
    }
    const std::size_t begin = at;
    while (at < text.size() && !is_in_set(text, at, 0, nullptr)) {
      at += code_point_at(text, at).bytes;
    }
    if (!run.spend(1)) {
      return std::nullopt;
    }
    pieces.push_back({begin, at});
  }
}

std::optional<ranges> split_space_right(interpreter& run, std::string_view text,
                                        std::int64_t splits_max) {
  ranges pieces;
  std::size_t end = text.size();
  while (true) {
    end = strip_range(text.substr(0, end), nullptr, {.left = false, .right = true}).end;
    if (end == 0) {
      break;
    }
    if (splits_max >= 0 && pieces.size() >= static_cast<std::size_t>(splits_max)) {
      pieces.push_back({0, end});
      break;
    }
    std::size_t begin = end;
    while (begin > 0) {
      const std::size_t before = character_before(text, begin);
      if (is_in_set(text, before, begin - before, nullptr)) {
        break;
      }
      begin = before;
    }
    if (!run.spend(1)) {
      return std::nullopt;
    }
    pieces.push_back({begin, end});
    end = begin;
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::optional<ranges> split_right(interpreter& run, std::string_view text, std::string_view by,
                                  std::int64_t splits_max) {
  ranges pieces;
  std::size_t end = text.size();
  while (splits_max < 0 || pieces.size() < static_cast<std::size_t>(splits_max)) {
    const auto found = find_last(run, text, by, end);
    if (!found) {
      return std::nullopt;
    }
    if (!*found) {
      break;
    }
    pieces.push_back({**found + by.size(), end});
    end = **found;
  }
  pieces.push_back({0, end});
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

} // namespace

byte_range strip_range(std::string_view text, const marked_text* set, sides which) {
  byte_range kept{0, text.size()};
  while (which.left && kept.begin < kept.end) {
    const std::size_t bytes = code_point_at(text, kept.begin).bytes;
    if (!is_in_set(text, kept.begin, bytes, set)) {
      break;
    }
    kept.begin += bytes;
  }
  while (which.right && kept.begin < kept.end) {
    const std::size_t before = character_before(text, kept.end);
    if (!is_in_set(text, before, kept.end - before, set)) {
      break;
    }
    kept.end = before;
  }
  return kept;
}

maybe strip(interpreter& run, const marked_text& text, const marked_text* set, sides which) {
  const std::size_t work = set ? 1 + set->size() / 8 : 1;
  if (!run.spend_bytes(text.size()) || (set && !run.spend(work * (1 + text.size() / 32)))) {
    return std::nullopt;
  }
  const byte_range kept = strip_range(text.text(), set, which);
  return run.make_text(text.slice(kept.begin, kept.end));
}

maybe to_upper(interpreter& run, const marked_text& text) {
  return map_code_points(run, text, [](char32_t c, std::size_t) { return to_upper(c); });
}

maybe to_lower(interpreter& run, const marked_text& text) {
  return map_code_points(run, text, [](char32_t c, std::size_t) { return to_lower(c); });
}

maybe capitalize(interpreter& run, const marked_text& text) {
  return map_code_points(
      run, text, [](char32_t c, std::size_t i) { return i == 0 ? to_upper(c) : to_lower(c); });
}

maybe swap_case(interpreter& run, const marked_text& text) {
  return map_code_points(run, text, [](char32_t c, std::size_t) {
    return to_lower(c) != c ? to_lower(c) : to_upper(c);
  });
}

maybe title_words(interpreter& run, const marked_text& text) {
  bool is_inside = false;
  return map_code_points(run, text, [&](char32_t c, std::size_t) {
    const char32_t mapped = is_inside ? to_lower(c) : to_upper(c);
    is_inside = is_cased(c);
    return mapped;
  });
}

maybe title_filter(interpreter& run, const marked_text& text) {
  bool is_inside = false;
  return map_code_points(run, text, [&](char32_t c, std::size_t) {
    const bool is_separator =
        is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    const char32_t mapped = is_inside ? to_lower(c) : to_upper(c);
    is_inside = !is_separator;
    return mapped;
  });
}

bool has_only_case(std::string_view text, letter_case wanted) {
  bool has_letter = false;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = code_point_at(text, at);
    const bool is_lower = c.is_valid && to_upper(c.number) != c.number;
    const bool is_upper = c.is_valid && to_lower(c.number) != c.number;
    if (wanted == letter_case::lower ? is_upper : is_lower) {
      return false;
    }
    has_letter = has_letter || is_lower || is_upper;
    at += c.bytes;
  }
  return has_letter;
}

maybe replace(interpreter& run, const marked_text& text, const marked_text& from,
              const marked_text& to, std::int64_t count) {
  marked_text out;
  std::size_t at = 0;
  if (!run.spend_bytes(text.size())) {
    return std::nullopt;
  }
  for (std::int64_t done = 0; count < 0 || done < count; ++done) {
    std::optional<std::size_t> found;
    if (!from.empty()) {
      found = find_bytes(text.text(), from.text(), at);
    } else if (done == 0) {
      found = 0;
    } else if (at < text.size()) { // an empty pattern matches before each character and at the end
      found = at + code_point_at(text.text(), at).bytes;
    }
    if (!found) {
      break;
    }
    if (!run.append(out, text, at, *found) || !run.append(out, to)) {
      return std::nullopt;
    }
    at = *found + from.size();
  }
  return run.append(out, text, at, text.size()) ? run.make_text(std::move(out)) : std::nullopt;
}

std::optional<ranges> split(interpreter& run, std::string_view text, const marked_text* separator,
                            std::int64_t splits_max, bool from_right) {
  if (!run.spend_bytes(text.size())) {
    return std::nullopt;
  }
  if (!separator) {
    return from_right ? split_space_right(run, text, splits_max)
                      : split_space(run, text, splits_max);
  }
  const std::string_view by = separator->text();
  if (by.empty()) {
    return run.fail("empty separator");
  }
  if (from_right) {
    return split_right(run, text, by, splits_max);
  }
  ranges pieces;
  std::size_t at = 0;
  while (splits_max < 0 || pieces.size() < static_cast<std::size_t>(splits_max)) {
    const auto found = find_bytes(text, by, at);
    if (!found) {
      break;
    }
    if (!run.spend(1)) {
      return std::nullopt;
    }
    pieces.push_back({at, *found});
    at = *found + by.size();
  }
  pieces.push_back({at, text.size()});
  return pieces;
}

ranges lines_of(std::string_view text, bool keeps_ends) {
  ranges lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = code_point_at(text, at);
    std::size_t next = at + c.bytes;
    if (c.is_valid && is_line_end(c.number)) {
      next += c.number == '\r' && next < text.size() && text[next] == '\n' ? 1 : 0;
      lines.push_back({begin, keeps_ends ? next : at});
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) {
    lines.push_back({begin, text.size()});
  }
  return lines;
}

maybe list_of(interpreter& run, const marked_text& text, const ranges& pieces) {
  std::vector<value> items;
  for (const byte_range& piece : pieces) {
    maybe item = run.make_text(text.slice(piece.begin, piece.end));
    if (!item) {
      return std::nullopt;
    }
    items.push_back(std::move(*item));
  }
  return run.make_list(std::move(items));
}

std::optional<std::optional<std::size_t>> find_last(interpreter& run, std::string_view text,
                                                    std::string_view needle, std::size_t end) {
  // std's rfind starts over at each position: the budget covers the worst case, by blocks of 1 KB.
  const std::string_view part = text.substr(0, end);
  if (!run.spend(1 + part.size() / 1024 * std::min<std::size_t>(needle.size(), part.size()) / 8)) {
    return std::nullopt;
  }
  const std::size_t at = part.rfind(needle);
  return at == std::string_view::npos ? std::optional<std::size_t>() : std::optional(at);
}

maybe pad(interpreter& run, const marked_text& text, std::int64_t width, const marked_text& fill,
          alignment where) {
  if (!run.spend_bytes(text.size())) {
    return std::nullopt;
  }
  const auto length = static_cast<std::int64_t>(count_code_points(text.text()));
  const std::int64_t missing = std::max<std::int64_t>(width, length) - length;
  std::int64_t left = where == alignment::right ? missing : 0;
  if (where == alignment::center) {
    left = missing / 2 + (missing & width & 1);
  }
  marked_text out;
  return run.append_repeated(out, fill, left) && run.append(out, text) &&
                 run.append_repeated(out, fill, missing - left)
             ? run.make_text(std::move(out))
             : std::nullopt;
}

maybe reverse_text(interpreter& run, const marked_text& text) {
  marked_text out;
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t begin = character_before(text.text(), end);
    if (!run.append(out, text, begin, end)) {
      return std::nullopt;
    }
    end = begin;
  }
  return run.make_text(std::move(out));
}

std::optional<std::int64_t> whole_argument(interpreter& run, const value* v, std::int64_t preset) {
  if (!v || v->is(value_kind::none)) {
    return preset;
  }
  const auto whole = as_whole(*v);
  return whole ? whole : run.fail("an argument must be an int, not {}", name_of(v->type()));
}

bool flag_argument(const value* v, bool preset) {
  return v ? is_true(*v) : preset;
}

std::optional<const marked_text*> text_argument(interpreter& run, const value* v) {
  if (!v || v->is(value_kind::none)) {
    return nullptr;
  }
  if (!v->is(value_kind::string)) {
    return run.fail("an argument must be a str, not {}", name_of(v->type()));
  }
  return &v->as_text();
}

} // namespace baton::text::jinja
