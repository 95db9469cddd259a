#include "runtime/grammar/lark.hpp"

#include "runtime/grammar/automata/regex.hpp"
#include "runtime/grammar/rule_reader.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

struct common_terminal {
  std::string_view name, pattern;
};

// Lark's library `common`.
constexpr common_terminal common_terminals[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", R"([0-9]+\.[0-9]*|\.[0-9]+)"},
    {"FLOAT", R"([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"SIGNED_FLOAT", R"([+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?))"},
    {"NUMBER", R"(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"SIGNED_NUMBER", R"([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", R"("([^"\\\n]|\\[^\n])*")"},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", R"([ \t]+)"},
    {"WS", R"([ \t\f\r\n]+)"},
    {"CR", R"(\r)"},
    {"LF", R"(\n)"},
    {"NEWLINE", R"((\r?\n)+)"},
    {"SH_COMMENT", R"(#[^\n]*)"},
    {"CPP_COMMENT", R"(//[^\n]*)"},
    {"C_COMMENT", R"(/\*([^*]|\*+[^*/])*\*+/)"},
    {"SQL_COMMENT", R"(--[^\n]*)"},
};

bool is_lower(char32_t c) noexcept {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char32_t c) noexcept {
  return c >= 'A' && c <= 'Z';
}
bool is_lark_character(char32_t c) noexcept {
  return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') || c == '_';
}

bool is_terminal(std::string_view name) noexcept {
  const auto letter = name.find_first_not_of('_');
  return letter != std::string_view::npos && is_upper(static_cast<unsigned char>(name[letter]));
}

std::string read_name(text_reader& in) {
  std::string name;
  while (is_lark_character(in.peek()))
    name += static_cast<char>(in.next());
  return name;
}

bool accept_any(text_reader& in, std::initializer_list<std::string_view> texts) {
  return std::any_of(texts.begin(), texts.end(), [&](auto text) { return in.accept(text); });
}

// White space within a line, and comments.
void skip_space(text_reader& in) {
  for (;;) {
    if (accept_any(in, {"//", "#"}))
      while (!in.is_at_end() && in.peek() != '\n')
        in.next();
    else if (!accept_any(in, {" ", "\t", "\r"}))
      return;
  }
}

void skip_lines(text_reader& in) {
  do
    skip_space(in);
  while (in.accept("\n"));
}

// Marks of a rule for the tree that a parser makes; at most both.
void skip_tree_marks(text_reader& in) {
  accept_any(in, {"?", "!"});
  accept_any(in, {"?", "!"});
}

class lark_reader : rule_reader {
public:
  lark_reader(grammar_builder& to, std::string_view source)
      : rule_reader(to, source), ignored_(to.add_rule("%ignore")),
        has_ignored_(source.find("%ignore") != std::string_view::npos) {}

  result<expression> read() {
    for (skip_lines(in_); !in_.is_at_end(); skip_lines(in_)) {
      auto ok = in_.accept("%") ? read_directive() : read_definition();
      if (!ok)
        return ok.error();
      skip_space(in_);
      if (!in_.is_at_end() && in_.peek() != '\n')
        return wrong("something behind the end of a statement");
    }
    if (const auto* name = undefined())
      return fail(errc::invalid_value, "the grammar has no {} '{}'",
                  is_terminal(*name) ? "terminal" : "rule", *name);
    const auto start = find("start");
    if (!start)
      return fail(errc::invalid_value, "the grammar has no rule 'start'");
    to_.define(ignored_, to_.repeat(to_.either(std::move(ignore_)), 0, std::nullopt));
    return to_.sequence({to_.call(ignored_), to_.call(*start)});
  }

private:
  static error unsupported(std::string_view what) {
    return fail(errc::unsupported_parameter, "{} in a Lark grammar is not supported", what);
  }

  result<void> read_directive() {
    const auto directive = read_name(in_);
    skip_space(in_);
    if (directive == "import")
      return read_import();
    if (directive != "ignore")
      return unsupported(fmt::format("'%{}'", directive));
    is_in_terminal_ = true;
    auto parts = read_alternatives(/*depth=*/0);
    if (!parts)
      return parts.error();
    ignore_.push_back(either_of(to_, *std::move(parts)));
    return {};
  }

  // `%import common.NAME`, `common.NAME -> NAME`, `common (NAME, NAME)`.
  result<void> read_import() {
    if (!in_.accept("common"))
      return unsupported("an '%import' from other than 'common'");
    skip_space(in_);
    if (in_.accept("(")) {
      do {
        skip_lines(in_);
        const auto name = read_name(in_);
        if (auto ok = import_terminal(name, name); !ok)
          return ok;
        skip_lines(in_);
      } while (in_.accept(","));
      return in_.accept(")") ? result<void>() : wrong("a '(' without ')'");
    }
    if (!in_.accept("."))
      return wrong("an '%import' that is not 'common.NAME'");
    const auto name = read_name(in_);
    skip_space(in_);
    if (!in_.accept("->"))
      return import_terminal(name, name);
    skip_space(in_);
    return import_terminal(name, read_name(in_));
  }

  result<void> import_terminal(std::string_view name, const std::string& as) {
    const auto* row = std::find_if(std::begin(common_terminals), std::end(common_terminals),
                                   [&](const auto& r) { return r.name == name; });
    if (row == std::end(common_terminals))
      return fail(errc::invalid_value, "Lark's library 'common' has no terminal '{}'", name);
    if (as.empty())
      return wrong("an '%import' without a name behind '->'");
    const auto is = expression_of(row->pattern);
    if (!is)
      return is.error();
    if (!begin(as))
      return wrong("'{}' twice", as);
    define({{*is}});
    return {};
  }

  result<void> read_definition() {
    skip_tree_marks(in_);
    const auto name = read_name(in_);
    if (name.empty())
      return wrong("a statement that does not begin with 'name:' or '%'");
    if (in_.starts_with("{"))
      return unsupported("a template");
    if (in_.accept("."))
      if (const bool is_negative = in_.accept("-"); !in_.number(10, 1, 9))
        return wrong("a priority that is no number{}", is_negative ? " behind '-'" : "");
    skip_space(in_);
    if (!in_.accept(":"))
      return wrong("a statement that does not begin with 'name:' or '%'");
    is_in_terminal_ = is_terminal(name);
    if (!begin(name))
      return wrong("'{}' twice", name);
    auto is = read_alternatives(/*depth=*/0);
    if (!is)
      return is.error();
    define(*std::move(is));
    return {};
  }

  void skip_within(std::size_t depth) { depth > 0 ? skip_lines(in_) : skip_space(in_); }

  // A statement goes on in the next line if that begins with '|'.
  bool accept_or() {
    const auto before = in_.position();
    skip_lines(in_);
    if (in_.accept("|"))
      return true;
    in_.move_to(before);
    return false;
  }

  result<rule_alternatives> read_alternatives(std::size_t depth) {
    if (depth > grammar_limits::depth_max)
      return wrong("more than {} nested groups", grammar_limits::depth_max);
    rule_alternatives all;
    do {
      auto parts = read_parts(depth);
      if (!parts)
        return parts.error();
      all.push_back(*std::move(parts));
      skip_within(depth);
      if (in_.accept("->")) { // a name in the tree that a parser makes
        skip_space(in_);
        if (read_name(in_).empty())
          return wrong("a '->' without a name");
      }
    } while (accept_or());
    return all;
  }

  result<std::vector<expression>> read_parts(std::size_t depth) {
    std::vector<expression> parts;
    for (;;) {
      skip_within(depth);
      const bool is_end = in_.is_at_end() || in_.peek() == '\n' || in_.starts_with("->") ||
                          in_.starts_with("|") || in_.starts_with(")") || in_.starts_with("]");
      if (is_end)
        return parts;
      auto part = read_repeated(depth);
      if (!part)
        return part.error();
      parts.push_back(*part);
    }
  }

  result<expression> read_repeated(std::size_t depth) {
    auto out = read_one(depth);
    while (out) {
      if (const auto repeated = accept_repetition(*out)) {
        out = *repeated;
      } else if (skip_space(in_); in_.accept("~")) {
        const auto times = read_times();
        if (!times)
          return times.error();
        out = to_.repeat(*out, times->least, times->most);
      } else {
        return out;
      }
      if (auto ok = count_repetition(); !ok)
        return ok.error();
    }
    return out;
  }

  // `n` or `n..m`, behind '~'.
  result<text_reader::bounds> read_times() {
    skip_space(in_);
    const auto least = in_.number(10, 1, repeat_digits_max);
    if (!least)
      return wrong("a '~' without a number");
    auto most = least;
    if (in_.accept(".."))
      most = in_.number(10, 1, repeat_digits_max);
    if (!most || *most < *least)
      return wrong("a repetition '~n..m' without m, or with m below n");
    if (*most > grammar_limits::repeat_max)
      return wrong("a repetition of more than {}", grammar_limits::repeat_max);
    return text_reader::bounds{*least, *most};
  }

  result<expression> read_one(std::size_t depth) {
    for (const auto& [open, close] : {std::pair("(", ")"), std::pair("[", "]")})
      if (in_.accept(open)) {
        auto within = read_alternatives(depth + 1);
        if (!within)
          return within.error();
        skip_lines(in_);
        if (!in_.accept(close))
          return wrong("a '{}' without '{}'", open, close);
        const auto out = either_of(to_, *std::move(within));
        return *close == ']' ? to_.optional(out) : out;
      }
    if (in_.accept("\""))
      return with_ignored(read_literal());
    if (in_.accept("/"))
      return with_ignored(read_expression());
    const auto name = read_name(in_);
    if (name.empty())
      return wrong("something that is not a literal, expression, group or name");
    if (in_.starts_with("{"))
      return unsupported("a template");
    if (is_in_terminal_) // which may not begin with itself
      return to_.call(rule_of(name));
    return is_terminal(name) ? with_ignored(call(name)) : call(name);
  }

  // Terminals of a rule may have ignored text behind them; within a terminal there is none.
  result<expression> with_ignored(result<expression> terminal) {
    if (!terminal || is_in_terminal_ || !has_ignored_)
      return terminal;
    return to_.sequence({*terminal, to_.call(ignored_)});
  }

  // A literal or a range, behind its first quote.
  result<expression> read_literal() {
    const auto text = read_text();
    if (!text)
      return text.error();
    if (in_.accept("..")) {
      if (!in_.accept("\""))
        return wrong("a '..' without a literal behind it");
      const auto last = read_text();
      if (!last)
        return last.error();
      if (text->size() != 1 || last->size() != 1 || last->front() < text->front())
        return wrong("a range that is not from one character to a later one");
      return to_.characters({{text->front(), last->front()}});
    }
    if (text->empty())
      return wrong("an empty literal");
    const bool is_any_case = in_.starts_with("i") && !is_name_within(1);
    if (is_any_case)
      in_.next();
    std::vector<expression> out;
    for (const auto c : *text) {
      character_set set;
      set.add(c);
      if (is_any_case && (is_lower(c) || is_upper(c)))
        set.add(c ^ 0x20);
      out.push_back(to_.characters(set));
    }
    return to_.sequence(std::move(out));
  }

  // Whether a name goes on at this distance.
  bool is_name_within(std::size_t distance) {
    const auto before = in_.position();
    in_.move_to(before + distance);
    const bool is_name = is_lark_character(in_.peek());
    in_.move_to(before);
    return is_name;
  }

  result<std::u32string> read_text() {
    std::u32string text;
    while (!in_.is_at_end() && in_.peek() != '\n') {
      char32_t c = in_.next();
      if (c == '"')
        return text;
      if (c == '\\') {
        const auto escaped = // as in Python's strings
            read_escape("nrtbfav\\\"'/", "\n\r\t\b\f\a\v\\\"'/");
        if (!escaped)
          return escaped.error();
        c = *escaped;
      }
      text += c;
    }
    return wrong("an unterminated literal");
  }

  // A regular expression, behind its first slash.
  result<expression> read_expression() {
    std::string pattern;
    while (!in_.accept("/")) {
      if (in_.is_at_end() || in_.peek() == '\n')
        return wrong("an unterminated expression");
      if (in_.accept("\\/")) {
        pattern += '/';
        continue;
      }
      const char32_t c = in_.next();
      pattern += utf8_of(c);
      if (c == '\\' && !in_.is_at_end())
        pattern += utf8_of(in_.next());
    }
    if (const auto flags = read_name(in_); !flags.empty() && flags != "u")
      return unsupported(fmt::format("the flag '{}' of an expression", flags));
    return expression_of(pattern);
  }

  result<expression> expression_of(std::string_view pattern) {
    return read_regex(to_, pattern,
                      {[this](const character_set& set) { return to_.characters(set); }, false});
  }

  rule_id ignored_;
  bool has_ignored_;
  std::vector<expression> ignore_; // the alternatives of `%ignore`
  bool is_in_terminal_ = false;
};

} // namespace

bool is_lark(std::string_view source) {
  text_reader in(source);
  skip_lines(in);
  if (in.starts_with("%"))
    return true;
  skip_tree_marks(in);
  if (read_name(in).empty())
    return false;
  if (in.accept("."))
    return true;
  skip_space(in);
  return in.starts_with("{") || (in.starts_with(":") && !in.starts_with("::="));
}

result<expression> read_lark(grammar_builder& to, std::string_view source) {
  return lark_reader(to, source).read();
}

} // namespace baton::grammar
