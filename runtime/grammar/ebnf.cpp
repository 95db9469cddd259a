#include "runtime/grammar/ebnf.hpp"

#include "runtime/grammar/rule_reader.hpp"

namespace baton::grammar {
namespace {

bool is_name_character(char32_t c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class ebnf_reader : rule_reader {
public:
  ebnf_reader(grammar_builder& to, std::string_view source) : rule_reader(to, source) {}

  result<rule_id> read() {
    for (skip_space(); !in_.is_at_end(); skip_space()) {
      const auto name = read_name();
      skip_space();
      if (name.empty() || !in_.accept("::="))
        return wrong("a rule that does not begin with 'name ::='");
      if (!begin(name))
        return wrong("the rule '{}' twice", name);
      auto is = read_alternatives(/*depth=*/0);
      if (!is)
        return is.error();
      define(*std::move(is));
    }
    if (const auto* name = undefined())
      return fail(errc::invalid_value, "the grammar has no rule '{}'", *name);
    const auto root = find("root");
    if (!root)
      return fail(errc::invalid_value, "the grammar has no rule 'root'");
    return *root;
  }

private:
  void skip_space() {
    while (!in_.is_at_end()) {
      if (in_.accept("#"))
        while (!in_.is_at_end() && in_.peek() != '\n')
          in_.next();
      else if (!in_.accept(" ") && !in_.accept("\t") && !in_.accept("\n") && !in_.accept("\r"))
        return;
    }
  }

  std::string read_name() {
    std::string name;
    while (is_name_character(in_.peek()))
      name += static_cast<char>(in_.next());
    return name;
  }

  result<rule_alternatives> read_alternatives(std::size_t depth) {
    if (depth > grammar_limits::depth_max)
      return wrong("more than {} nested groups", grammar_limits::depth_max);
    rule_alternatives all;
    do {
      auto one = read_parts(depth);
      if (!one)
        return one.error();
      all.push_back(*std::move(one));
    } while (in_.accept("|"));
    return all;
  }

  // Ends at the next rule or where the enclosing construct continues.
  result<std::vector<expression>> read_parts(std::size_t depth) {
    std::vector<expression> parts;
    for (;;) {
      skip_space();
      if (in_.is_at_end() || in_.starts_with("|") || in_.starts_with(")") || is_rule_here())
        return parts;
      auto part = read_repeated(depth);
      if (!part)
        return part.error();
      parts.push_back(*part);
    }
  }

  bool is_rule_here() {
    const auto before = in_.position();
    const bool has_name = !read_name().empty();
    skip_space();
    const bool is_rule = has_name && in_.starts_with("::=");
    in_.move_to(before);
    return is_rule;
  }

  result<expression> read_repeated(std::size_t depth) {
    auto out = read_one(depth);
    while (out) {
      skip_space();
      if (const auto repeated = accept_repetition(*out)) {
        out = *repeated;
      } else if (in_.accept("{")) {
        const auto times = in_.counts();
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

  result<expression> read_one(std::size_t depth) {
    if (in_.accept("(")) {
      if (in_.starts_with("="))
        return fail(errc::unsupported_parameter, "look-ahead in a grammar is not supported");
      auto within = read_alternatives(depth + 1);
      if (!within)
        return within.error();
      if (!in_.accept(")"))
        return wrong("a '(' without ')'");
      return either_of(to_, *std::move(within));
    }
    for (const char* quote : {"\"", "'"})
      if (in_.accept(quote))
        return read_literal(*quote);
    if (in_.accept("["))
      return read_class();
    if (in_.accept("."))
      return to_.characters(character_set::all());
    const auto name = read_name();
    if (name.empty())
      return wrong("something that is not a literal, class, group or name");
    return call(name);
  }

  result<expression> read_literal(char quote) {
    std::string text;
    while (!in_.is_at_end()) {
      if (in_.peek() == static_cast<char32_t>(quote)) {
        in_.next();
        return to_.text(text);
      }
      const auto c = read_character();
      if (!c)
        return c.error();
      text += utf8_of(*c);
    }
    return wrong("an unterminated literal");
  }

  result<expression> read_class() {
    const bool is_inverted = in_.accept("^");
    character_set set;
    while (!in_.accept("]")) {
      if (in_.is_at_end())
        return wrong("a '[' without ']'");
      const auto first = read_character();
      if (!first)
        return first.error();
      auto last = first;
      if (in_.starts_with("-") && !in_.starts_with("-]")) {
        in_.accept("-");
        if (in_.is_at_end())
          return wrong("a '[' without ']'");
        last = read_character();
        if (!last)
          return last.error();
      }
      if (*last < *first)
        return wrong("a range of characters from a later to an earlier one");
      set.add(*first, *last);
    }
    return to_.characters(is_inverted ? set.inverted() : set);
  }

  // Requires: not at the end.
  result<char32_t> read_character() {
    const char32_t c = in_.next();
    if (c != '\\')
      return c;
    return read_escape("nrtbf\\\"'[]-^/.", "\n\r\t\b\f\\\"'[]-^/.");
  }
};

} // namespace

result<rule_id> read_ebnf(grammar_builder& to, std::string_view source) {
  return ebnf_reader(to, source).read();
}

} // namespace baton::grammar
