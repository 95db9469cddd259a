// The lexer: one pass, two states (outside and inside tags).
#include "runtime/text/template/syntax/lexer.hpp"

#include "runtime/text/template/values/unicode.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace baton::text::jinja {

namespace {

constexpr std::array<std::string_view, 6> two_character_symbols = {
    "//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view one_character_symbols = "+-/*%~[](){}><=.:|,;";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Converts \r\n and \r to \n and drops one newline at the end.
std::string normalise(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    } else {
      text.push_back(source[i]);
    }
  }
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  return text;
}

int digit_value(char c) {
  if (is_digit(c)) {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

// Reads up to `count` digits of `base` at `at` and advances `at`.
std::optional<char32_t> read_digits(std::string_view s, std::size_t& at, std::size_t count,
                                    int base, bool exactly) {
  char32_t number = 0;
  std::size_t seen = 0;
  for (; seen < count && at < s.size() && digit_value(s[at]) < base; ++seen, ++at) {
    number = number * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(s[at]));
  }
  if (seen == 0 || (exactly && seen != count) || number > 0x10FFFF) {
    return std::nullopt;
  }
  return number;
}

// Python's string escapes; an unknown one stays as written. `at` is after the backslash.
bool unescape_one(std::string_view s, std::size_t& at, std::string& out) {
  static constexpr std::string_view from = "ntrabfv\\'\"";
  static constexpr std::string_view to = "\n\t\r\a\b\f\v\\'\"";
  const char c = s[at++];
  if (const auto i = from.find(c); i != std::string_view::npos) {
    out.push_back(to[i]);
    return true;
  }
  std::optional<char32_t> number;
  if (c == '\n') {
    return true;
  } else if (c == 'x' || c == 'u' || c == 'U') {
    number = read_digits(s, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, /*exactly=*/true);
  } else if (c >= '0' && c <= '7') {
    number = read_digits(s, --at, 3, 8, /*exactly=*/false);
  } else {
    out.push_back('\\');
    out.push_back(c);
    return true;
  }
  // A lone surrogate has no UTF-8 form.
  if (!number || (*number >= 0xD800 && *number < 0xE000)) {
    return false;
  }
  append_utf8(out, *number);
  return true;
}

class lexer {
public:
  explicit lexer(std::string_view source) : source_(normalise(source)), text_(source_) {}

  result<std::vector<token>> run() {
    while (at_ < text_.size() && !failure_) {
      lex_outside();
    }
    if (failure_) {
      return *failure_;
    }
    put(token::kind::end, "");
    return std::move(tokens_);
  }

private:
  void put(token::kind type, std::string text) {
    tokens_.push_back({type, line_, std::move(text)});
  }

  void fail_here(std::string_view why) {
    failure_ = fail(errc::template_failed, "{} (template line {})", why, line_);
  }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  std::size_t after_spaces(std::size_t at) const {
    while (at < text_.size()) {
      const code_point c = code_point_at(text_, at);
      if (!c.is_valid || !is_space(c.number)) {
        break;
      }
      at += c.bytes;
    }
    return at;
  }

  // Jinja's OptionalLStrip. `-` strips all whitespace before a tag, `+` none. Otherwise, a block or
  // comment that starts its line loses the indentation.
  std::string_view strip_before(std::string_view data, char sign, bool is_output) const {
    std::size_t keep = data.size();
    const std::size_t line_begin = data.rfind('\n') + 1; // npos + 1 is 0
    const bool is_lstripped = sign != '+' && !is_output && (line_begin > 0 || is_line_start_);
    if (sign != '-' && !is_lstripped) {
      return data;
    }
    std::size_t last_ink = 0; // one past the last non-space character
    for (std::size_t i = 0; i < data.size();) {
      const code_point c = code_point_at(data, i);
      i += c.bytes;
      last_ink = c.is_valid && is_space(c.number) ? last_ink : i;
    }
    if (sign == '-') {
      keep = last_ink;
    } else if (last_ink <= line_begin) {
      keep = line_begin;
    }
    return data.substr(0, keep);
  }

  // Skips whitespace after a tag: all of it for `-`, else one newline after a block or comment.
  void finish_tag(std::size_t end, char sign, bool eats_newline) {
    if (sign == '-') {
      end = after_spaces(end);
    } else if (eats_newline && sign != '+' && end < text_.size() && text_[end] == '\n') {
      ++end;
    }
    is_line_start_ = end > 0 && text_[end - 1] == '\n';
    advance(end);
  }

  void lex_outside() {
    std::size_t open = text_.find('{', at_);
    while (open != std::string_view::npos && open + 1 < text_.size() &&
           std::string_view("{%#").find(text_[open + 1]) == std::string_view::npos) {
      open = text_.find('{', open + 1);
    }
    if (open == std::string_view::npos || open + 1 >= text_.size()) {
      put(token::kind::data, std::string(text_.substr(at_)));
      advance(text_.size());
      return;
    }
    const char tag = text_[open + 1];
    const char next = open + 2 < text_.size() ? text_[open + 2] : ' ';
    const char sign = next == '-' || next == '+' ? next : ' ';
    const auto data = strip_before(text_.substr(at_, open - at_), sign, tag == '{');
    if (!data.empty()) {
      put(token::kind::data, std::string(data));
    }
    advance(open);
    const std::size_t inside = open + (sign == ' ' ? 2 : 3);
    if (tag == '#') {
      skip_comment(inside);
    } else if (tag == '%' && keyword_end(inside, "raw")) {
      lex_raw(inside);
    } else {
      put(tag == '{' ? token::kind::output_begin : token::kind::block_begin, "");
      advance(inside);
      lex_inside(tag == '{' ? '}' : '%');
    }
  }

  void skip_comment(std::size_t inside) {
    const std::size_t close = text_.find("#}", inside);
    if (close == std::string_view::npos) {
      fail_here("missing end of comment");
      return;
    }
    const char sign = close > inside ? text_[close - 1] : ' ';
    finish_tag(close + 2, sign, /*eats_newline=*/true);
  }

  // If `{% word %}` follows (after its sign), the position of its end with the end's sign.
  std::optional<std::size_t> keyword_end(std::size_t at, std::string_view word) const {
    at = after_spaces(at);
    if (!text_.substr(at).starts_with(word)) {
      return std::nullopt;
    }
    at = after_spaces(at + word.size());
    const std::size_t sign = at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? 1 : 0;
    return text_.substr(at + sign).starts_with("%}") ? std::optional(at) : std::nullopt;
  }

  void lex_raw(std::size_t inside) {
    const std::size_t end = *keyword_end(inside, "raw");
    const std::size_t length = text_[end] == '%' ? 2 : 3;
    finish_tag(end + length, text_[end], /*eats_newline=*/false);
    for (std::size_t open = text_.find("{%", at_); open != std::string_view::npos;
         open = text_.find("{%", open + 1)) {
      const char next = open + 2 < text_.size() ? text_[open + 2] : ' ';
      const char sign = next == '-' || next == '+' ? next : ' ';
      const auto close = keyword_end(open + (sign == ' ' ? 2 : 3), "endraw");
      if (!close) {
        continue;
      }
      const auto data = strip_before(text_.substr(at_, open - at_), sign, /*is_output=*/false);
      put(token::kind::data, std::string(data));
      finish_tag(*close + (text_[*close] == '%' ? 2u : 3u), text_[*close], /*eats_newline=*/true);
      return;
    }
    fail_here("missing end of raw block");
  }

  // Reads the tokens of a tag up to its end: "}}" if `closer` is '}', "%}" if it is '%'.
  void lex_inside(char closer) {
    std::string brackets;
    while (!failure_) {
      advance(after_spaces(at_));
      if (at_ >= text_.size()) {
        fail_here(closer == '}' ? "missing '}}'" : "missing '%}'");
        return;
      }
      const std::size_t sign = text_[at_] == '-' || (text_[at_] == '+' && closer == '%') ? 1 : 0;
      const std::string_view rest = text_.substr(at_ + sign);
      if (brackets.empty() && rest.size() >= 2 && rest[0] == closer && rest[1] == '}') {
        put(closer == '}' ? token::kind::output_end : token::kind::block_end, "");
        finish_tag(at_ + sign + 2, sign == 1 ? text_[at_] : ' ', closer == '%');
        return;
      }
      lex_token(brackets);
    }
  }

  void lex_token(std::string& brackets) {
    const char c = text_[at_];
    if (is_name_start(c)) {
      std::size_t end = at_;
      while (end < text_.size() && (is_name_start(text_[end]) || is_digit(text_[end]))) {
        ++end;
      }
      put(token::kind::name, std::string(text_.substr(at_, end - at_)));
      advance(end);
    } else if (is_digit(c)) {
      lex_number();
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else {
      lex_symbol(brackets);
    }
  }

  std::size_t after_digits(std::size_t at) const {
    while (at < text_.size() && (is_digit(text_[at]) || text_[at] == '_')) {
      ++at;
    }
    return at;
  }

  void lex_number() {
    const auto digit_at = [&](std::size_t i) { return i < text_.size() && is_digit(text_[i]); };
    std::size_t end = at_ + 1;
    bool is_real = false;
    const char base =
        text_[at_] == '0' && end < text_.size() ? static_cast<char>(text_[end] | 0x20) : ' ';
    if (base == 'x' || base == 'o' || base == 'b') {
      ++end;
      while (end < text_.size() && (digit_value(text_[end]) < 16 || text_[end] == '_')) {
        ++end;
      }
    } else {
      end = after_digits(end);
      // Neither `1.items` nor the second dot of `a.0.1` is a fraction.
      const bool is_subscript = at_ > 0 && text_[at_ - 1] == '.';
      if (!is_subscript && end < text_.size() && text_[end] == '.' && digit_at(end + 1)) {
        end = after_digits(end + 1);
        is_real = true;
      }
      if (!is_subscript && end < text_.size() && (text_[end] | 0x20) == 'e') {
        const bool has_sign =
            end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
        const std::size_t exponent = end + (has_sign ? 2 : 1);
        if (digit_at(exponent)) {
          end = after_digits(exponent);
          is_real = true;
        }
      }
    }
    std::string digits(text_.substr(at_, end - at_));
    std::erase(digits, '_');
    put(is_real ? token::kind::real : token::kind::integer, std::move(digits));
    advance(end);
  }

  void lex_string(char quote) {
    std::string content;
    std::size_t at = at_ + 1;
    while (at < text_.size() && text_[at] != quote) {
      if (text_[at] != '\\') {
        content.push_back(text_[at++]);
      } else if (++at >= text_.size() || !unescape_one(text_, at, content)) {
        fail_here("bad escape in a string");
        return;
      }
    }
    if (at >= text_.size()) {
      fail_here("a string is not terminated");
      return;
    }
    put(token::kind::string, std::move(content));
    advance(at + 1);
  }

  void lex_symbol(std::string& brackets) {
    const std::string_view rest = text_.substr(at_);
    std::size_t length = 0;
    for (const std::string_view symbol : two_character_symbols) {
      length = rest.starts_with(symbol) ? 2 : length;
    }
    if (length == 0 && one_character_symbols.find(rest[0]) == std::string_view::npos) {
      fail_here(
          fmt::format("unexpected character '{}'", rest.substr(0, code_point_at(rest, 0).bytes)));
      return;
    }
    length = std::max<std::size_t>(length, 1);
    const char c = rest[0];
    if (c == '(' || c == '[' || c == '{') {
      brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) {
        fail_here(fmt::format("unexpected '{}'", c));
        return;
      }
      brackets.pop_back();
    }
    put(token::kind::symbol, std::string(rest.substr(0, length)));
    advance(at_ + length);
  }

  std::string source_;
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;
  std::vector<token> tokens_;
  std::optional<error> failure_;
};

} // namespace

result<std::vector<token>> tokenize(std::string_view source) {
  return lexer(source).run();
}

} // namespace baton::text::jinja
