#include "runtime/text/template/builtins/word_wrap.hpp"

#include "runtime/text/template/print.hpp"
#include "runtime/text/template/text_operations.hpp"
#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>

namespace baton::text::jinja {

bool is_word_character(char32_t c) {
  if (c < 0x80) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }
  return c >= 0xC0 && c != 0xD7 && c != 0xF7 && !is_space(c) && !(c >= 0x2000 && c <= 0x206F) &&
         !(c >= 0x3000 && c <= 0x303F);
}

namespace {

// A line, with the byte offsets of its characters and of its end.
class line_view {
public:
  explicit line_view(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const code_point c = code_point_at(text, at);
      characters_.push_back({c.number, at});
      at += c.bytes;
    }
    bytes_ = text.size();
  }
  std::size_t size() const { return characters_.size(); }
  std::size_t offset(std::size_t i) const { return i < size() ? characters_[i].at : bytes_; }
  char32_t at(std::size_t i) const { return characters_[i].number; }

  bool is_space(std::size_t i) const { // textwrap's: ASCII only
    return i < size() && std::u32string_view(U" \t\n\v\f\r").find(at(i)) != npos;
  }
  bool is_hyphen(std::size_t i) const { return i < size() && at(i) == U'-'; }
  bool is_word(std::size_t i) const { return i < size() && is_word_character(at(i)); }
  bool is_letter(std::size_t i) const { return is_word(i) && !(at(i) >= U'0' && at(i) <= U'9'); }
  // A word character, or a mark that may occur in a word: [\w!"'&.,?]
  bool is_word_or_mark(std::size_t i) const {
    return is_word(i) || (i < size() && std::u32string_view(U"!\"'&.,?").find(at(i)) != npos);
  }
  // The end of two or more hyphens at `i` that a word follows; else `i`.
  std::size_t end_of_dash(std::size_t i) const {
    std::size_t end = i;
    while (is_hyphen(end)) {
      ++end;
    }
    return end - i >= 2 && is_word(end) ? end : i;
  }

private:
  static constexpr auto npos = std::u32string_view::npos;
  struct character {
    char32_t number;
    std::size_t at;
  };
  std::vector<character> characters_;
  std::size_t bytes_ = 0;
};

// Whether a line may break after the hyphen at `i`: letters on both sides, several before it.
bool is_break_hyphen(const line_view& line, std::size_t i) {
  const bool has_letters = i >= 2 && line.is_letter(i - 1) && line.is_letter(i - 2);
  const bool is_second =
      i >= 3 && line.is_word_or_mark(i - 1) && line.is_hyphen(i - 2) && line.is_letter(i - 3);
  const std::size_t next = i + (line.is_hyphen(i + 2) ? 3 : 2);
  return line.is_hyphen(i) && (has_letters || is_second) && line.is_letter(i + 1) &&
         line.is_letter(next);
}

// End of the unbreakable piece of a line that starts at `begin`: textwrap's wordsep_re.
std::size_t end_of_piece(const line_view& line, std::size_t begin, bool breaks_on_hyphens) {
  std::size_t end = begin;
  if (line.is_space(begin)) {
    while (line.is_space(end)) {
      ++end;
    }
    return end;
  }
  const bool has_word_before = begin > 0 && line.is_word_or_mark(begin - 1);
  if (breaks_on_hyphens && has_word_before && line.end_of_dash(begin) > begin) {
    return line.end_of_dash(begin);
  }
  for (end = begin + 1; end < line.size() && !line.is_space(end); ++end) {
    if (breaks_on_hyphens && is_break_hyphen(line, end)) {
      return end + 1;
    }
    if (breaks_on_hyphens && line.is_word_or_mark(end - 1) && line.end_of_dash(end) > end) {
      return end;
    }
  }
  return end;
}

// Each byte of a line may be a character and a piece: 32 bytes during wrapping.
constexpr std::size_t steps_per_byte = 4;

struct wrap_style {
  std::size_t width = 79;
  bool breaks_long_words = true;
  bool breaks_on_hyphens = true;
};

struct piece {
  std::size_t begin;
  std::size_t end;
};

std::vector<piece> pieces_of(const line_view& line, bool breaks_on_hyphens) {
  std::vector<piece> all;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = end_of_piece(line, at, breaks_on_hyphens);
    all.push_back({at, end});
    at = end;
  }
  return all;
}

// Where to break a piece longer than a line, with `room` left on the line.
std::size_t break_of(const line_view& line, piece p, std::size_t room, const wrap_style& style) {
  const std::size_t end = std::min(p.end, p.begin + room);
  if (!style.breaks_on_hyphens || end == p.end) {
    return end;
  }
  std::size_t hyphen = end;
  while (hyphen > p.begin && !line.is_hyphen(hyphen - 1)) {
    --hyphen;
  }
  for (std::size_t i = p.begin; i + 1 < hyphen; ++i) {
    if (!line.is_hyphen(i)) {
      return hyphen;
    }
  }
  return end;
}

// textwrap.wrap of one line: drops white space at the ends of the new lines.
std::vector<byte_range> wrapped(const line_view& line, const wrap_style& style) {
  auto pieces = pieces_of(line, style.breaks_on_hyphens);
  std::vector<byte_range> lines;
  for (std::size_t next = 0; next < pieces.size();) {
    if (!lines.empty() && line.is_space(pieces[next].begin)) {
      ++next;
    }
    const std::size_t begin = next < pieces.size() ? pieces[next].begin : line.size();
    std::size_t end = begin;
    piece last{begin, begin};
    while (next < pieces.size() && pieces[next].end - begin <= style.width) {
      last = pieces[next++];
      end = last.end;
    }
    if (next < pieces.size() && pieces[next].end - pieces[next].begin > style.width) {
      piece& longer = pieces[next];
      if (style.breaks_long_words) {
        const std::size_t cut = break_of(line, longer, style.width - (end - begin), style);
        last = {longer.begin, cut};
        longer.begin = end = cut;
      } else if (end == begin) {
        last = longer;
        end = longer.end;
        ++next;
      }
    }
    const bool ends_in_space = last.end > last.begin && line.is_space(last.begin);
    end = ends_in_space ? last.begin : end;
    if (end > begin) {
      lines.push_back({line.offset(begin), line.offset(end)});
    }
  }
  return lines;
}

} // namespace

maybe filter_wordwrap(interpreter& run, const value& self, const bound_arguments& args) {
  if (!self.is(value_kind::string)) {
    return run.fail("a str is needed, not {}", name_of(self.type()));
  }
  const marked_text& text = self.as_text();
  const auto width = whole_argument(run, args[0], 79);
  const auto between = width ? text_argument(run, args[2]) : std::nullopt;
  if (!between || !run.spend(text.size() * steps_per_byte)) {
    return std::nullopt;
  }
  if (*width < 1) {
    return run.fail("wordwrap needs a width above 0, not {}", *width);
  }
  const wrap_style style{static_cast<std::size_t>(*width), flag_argument(args[1], true),
                         flag_argument(args[3], true)};
  const marked_text line_end = *between ? **between : marked_text::trusted("\n");
  marked_text out;
  bool is_first = true;
  for (const byte_range& of : lines_of(text.text(), /*keeps_ends=*/false)) {
    auto parts = wrapped(
        line_view(std::string_view(text.text()).substr(of.begin, of.end - of.begin)), style);
    if (parts.empty()) {
      parts.push_back({0, 0});
    }
    for (const byte_range& part : parts) {
      if ((!is_first && !run.append(out, line_end)) ||
          !run.append(out, text, of.begin + part.begin, of.begin + part.end)) {
        return std::nullopt;
      }
      is_first = false;
    }
  }
  return run.make_text(std::move(out));
}

} // namespace baton::text::jinja
