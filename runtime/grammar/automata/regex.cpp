#include "runtime/grammar/automata/regex.hpp"

#include "runtime/grammar/automata/text_reader.hpp"

namespace baton::grammar {
namespace {

const character_set digits{{'0', '9'}};
const character_set word_characters{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// As in Python and JavaScript, but only up to Latin-1.
const character_set spaces{{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}};
const character_set line_ends{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; // JavaScript's

class regex_reader {
public:
  regex_reader(grammar_builder& to, std::string_view pattern, const regex_style& style)
      : to_(to), style_(style), in_(pattern) {}

  result<expression> read() {
    auto out = read_alternatives(/*depth=*/0);
    if (out && !in_.is_at_end())
      return wrong("a ')' without '('");
    return out;
  }

private:
  template <class... Args>
  error wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(errc::invalid_value, "the regular expression has {}, at position {}",
                fmt::format(text, std::forward<Args>(args)...), in_.position());
  }
  error unsupported(std::string_view what) const {
    return fail(errc::unsupported_parameter,
                "{} in a regular expression is not supported, at position {}", what,
                in_.position());
  }

  result<expression> read_alternatives(std::size_t depth) {
    if (depth > grammar_limits::depth_max)
      return wrong("more than {} nested groups", grammar_limits::depth_max);
    std::vector<expression> all;
    do {
      auto one = read_sequence(depth);
      if (!one)
        return one;
      all.push_back(*one);
    } while (in_.accept("|"));
    return to_.either(std::move(all));
  }

  // The text around a search without `^` or `$`.
  expression anything() { return to_.repeat(style_.write(character_set::all()), 0, std::nullopt); }

  result<expression> read_sequence(std::size_t depth) {
    std::vector<expression> parts;
    const bool has_begin = depth == 0 && in_.accept("^");
    bool has_end = false;
    if (style_.is_search && depth == 0 && !has_begin)
      parts.push_back(anything());
    while (!in_.is_at_end() && in_.peek() != '|' && in_.peek() != ')') {
      if (depth == 0 && in_.accept("$")) {
        if (!in_.is_at_end() && in_.peek() != '|')
          return unsupported("'$' before the end");
        has_end = true;
        break;
      }
      auto part = read_repeated(depth);
      if (!part)
        return part;
      parts.push_back(*part);
    }
    if (style_.is_search && depth == 0 && !has_end)
      parts.push_back(anything());
    return to_.sequence(std::move(parts));
  }

  result<expression> read_repeated(std::size_t depth) {
    auto out = read_one(depth);
    bool is_repeated = false;
    while (out) {
      text_reader::bounds times;
      if (in_.accept("*")) {
        times = {0, std::nullopt};
      } else if (in_.accept("+")) {
        times = {1, std::nullopt};
      } else if (in_.accept("?")) {
        if (is_repeated) // lazy repetition matches the same texts
          return out;
        times = {0, 1};
      } else if (in_.starts_with("{") && is_repetition()) {
        in_.accept("{");
        auto counted = in_.counts();
        if (!counted)
          return counted.error();
        times = *counted;
      } else {
        return out;
      }
      if (is_repeated)
        return unsupported("a repetition of a repetition");
      is_repeated = true;
      out = to_.repeat(*out, times.least, times.most);
    }
    return out;
  }

  // Otherwise the brace is literal, as in the supported languages.
  bool is_repetition() const {
    text_reader ahead = in_;
    ahead.accept("{");
    return ahead.peek() >= '0' && ahead.peek() <= '9';
  }

  result<expression> read_one(std::size_t depth) {
    switch (const char32_t c = in_.next()) {
    case '(':
      return read_group(depth);
    case '[': {
      auto set = read_class();
      return set ? style_.write(*set) : result<expression>(set.error());
    }
    case '.':
      return style_.write(line_ends.inverted());
    case '\\': {
      auto set = read_escape(/*in_class=*/false);
      return set ? style_.write(*set) : result<expression>(set.error());
    }
    case '^':
      return unsupported("'^' after the beginning or in a group");
    case '$':
      return unsupported("'$' in a group");
    case '*':
    case '+':
    case '?':
      return wrong("'{}' with nothing to repeat", static_cast<char>(c));
    default:
      return style_.write({{c, c}});
    }
  }

  result<expression> read_group(std::size_t depth) {
    if (in_.accept("?")) {
      if (in_.starts_with("=") || in_.starts_with("!") || in_.starts_with("<=") ||
          in_.starts_with("<!"))
        return unsupported("look-around");
      if (in_.accept("P<") || in_.accept("<")) { // the name has no effect
        while (!in_.is_at_end() && in_.peek() != '>')
          in_.next();
        if (!in_.accept(">"))
          return wrong("a group's name without '>'");
      } else if (!in_.accept(":")) {
        return unsupported("a group that begins with '(?' but is neither '(?:' nor '(?<name>'");
      }
    }
    auto out = read_alternatives(depth + 1);
    if (out && !in_.accept(")"))
      return wrong("a '(' without ')'");
    return out;
  }

  result<character_set> read_class() {
    const bool is_inverted = in_.accept("^");
    character_set set;
    for (bool is_first = true;; is_first = false) {
      if (in_.is_at_end())
        return wrong("a '[' without ']'");
      if (!is_first && in_.accept("]"))
        break;
      if (is_first && in_.accept("]")) // JavaScript: the empty set; others: a literal
        return unsupported("a class that begins with ']'");
      if (in_.starts_with("[:"))
        return unsupported("a named class ('[:alpha:]')");
      auto from = read_class_member();
      if (!from)
        return from;
      const bool is_range = in_.starts_with("-") && !in_.starts_with("-]");
      if (!is_range || !is_single(*from)) {
        set.add(*from);
        continue;
      }
      in_.accept("-");
      if (in_.is_at_end())
        return wrong("a '[' without ']'");
      auto to = read_class_member();
      if (!to)
        return to;
      if (!is_single(*to) || to->ranges().front().first < from->ranges().front().first)
        return wrong("a range of characters from a later to an earlier one");
      set.add(from->ranges().front().first, to->ranges().front().first);
    }
    return is_inverted ? set.inverted() : set;
  }

  static bool is_single(const character_set& set) {
    return set.ranges().size() == 1 && set.ranges().front().first == set.ranges().front().last;
  }

  result<character_set> read_class_member() {
    const char32_t c = in_.next();
    return c == '\\' ? read_escape(/*in_class=*/true) : character_set{{c, c}};
  }

  result<character_set> read_escape(bool in_class) {
    if (in_.is_at_end())
      return wrong("a '\\' with nothing after it");
    const auto only = [](char32_t c) { return character_set{{c, c}}; };
    switch (const char32_t c = in_.next()) {
    case 'd':
      return digits;
    case 'D':
      return digits.inverted();
    case 'w':
      return word_characters;
    case 'W':
      return word_characters.inverted();
    case 's':
      return spaces;
    case 'S':
      return spaces.inverted();
    case 'n':
      return only('\n');
    case 'r':
      return only('\r');
    case 't':
      return only('\t');
    case 'f':
      return only('\f');
    case 'v':
      return only('\v');
    case 'x':
      return read_code(2, 2);
    case 'u':
      if (in_.accept("{")) {
        auto set = read_code(1, 6);
        if (set && !in_.accept("}"))
          return wrong("a '\\u{{' without '}}'");
        return set;
      }
      return read_code(4, 4);
    case 'b':
      return in_class ? result<character_set>(only('\b')) : unsupported("a word border ('\\b')");
    case 'B':
    case 'A':
    case 'Z':
    case 'z':
    case 'G':
      return unsupported("a border ('\\A', '\\B', '\\G', '\\Z')");
    case 'p':
    case 'P':
      return unsupported("a Unicode property ('\\p')");
    case 'k':
      return unsupported("a back-reference");
    case '0':
      return only(0);
    default:
      if (digits.contains(c))
        return unsupported("a back-reference");
      if (word_characters.contains(c))
        return wrong("'\\{}', an unknown escape", static_cast<char>(c));
      return only(c);
    }
  }

  result<character_set> read_code(std::size_t least, std::size_t most) {
    const auto code = in_.number(16, least, most);
    if (!code)
      return wrong("a code without {} hexadecimal digits", least);
    character_set set;
    set.add(*code);
    if (set.is_empty())
      return wrong("a code that is not a character (half of a surrogate pair, or above 10FFFF)");
    return set;
  }

  grammar_builder& to_;
  const regex_style& style_;
  text_reader in_;
};

} // namespace

result<expression> read_regex(grammar_builder& to, std::string_view pattern,
                              const regex_style& style) {
  if (auto ok = check_source(pattern, "regular expression"); !ok)
    return ok.error();
  return regex_reader(to, pattern, style).read();
}

} // namespace baton::grammar
