#include "runtime/grammar/json_schema/json_grammar.hpp"

#include "runtime/grammar/json_schema/json_value.hpp"

#include <algorithm>
#include <map>

namespace baton::grammar {
namespace {

constexpr std::uint32_t indentation_max = 32;
const character_set plain{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, character_max}};

} // namespace

expression json_grammar::once(std::optional<expression>& where, const char* name,
                              const std::function<expression()>& make) {
  if (!where) {
    // Stored before it is built: it may contain itself.
    const auto rule = to_.add_rule(name);
    where = to_.call(rule);
    to_.define(rule, make());
  }
  return *where;
}

expression json_grammar::any_of(const char* bytes) {
  std::vector<expression> all;
  for (const char* c = bytes; *c != 0; ++c)
    all.push_back(to_.text({c, 1}));
  return to_.either(std::move(all));
}

expression json_grammar::digits(std::uint32_t least, std::uint32_t most) {
  return to_.repeat(to_.byte_range('0', '9'), least, most);
}

expression json_grammar::gap() {
  return once(gap_, "gap", [this] {
    return to_.either(
        {to_.empty(), to_.text(" "),
         to_.sequence({to_.text("\n"), to_.repeat(any_of(" \t"), 0, indentation_max)})});
  });
}

expression json_grammar::string_character() {
  return once(character_, "character", [this] {
    const auto hex =
        to_.either({to_.byte_range('0', '9'), to_.byte_range('a', 'f'), to_.byte_range('A', 'F')});
    const auto two = to_.sequence({hex, hex});
    const auto single = to_.either(
        {to_.sequence({to_.either({to_.byte_range('0', '9'), any_of("abcefABCEF")}), hex, two}),
         to_.sequence({any_of("dD"), to_.byte_range('0', '7'), two})});
    const auto pair = to_.sequence({any_of("dD"), any_of("89abAB"), two, to_.text("\\u"),
                                    any_of("dD"), any_of("cdefCDEF"), two});
    const auto escape = to_.either(
        {any_of("\"\\/bfnrt"), to_.sequence({to_.text("u"), to_.either({single, pair})})});
    return to_.either({to_.characters(plain), to_.sequence({to_.text("\\"), escape})});
  });
}

expression json_grammar::written(const character_set& set) {
  // Common subsets share one rule.
  static const character_set beyond_ascii{{0x80, character_max}}, controls{{0, 0x1F}};
  const auto has_all = [&set](const character_set& of) {
    return set.within(of).ranges() == of.ranges();
  };
  std::vector<expression> all;
  character_set rest = set;
  if (has_all(beyond_ascii)) {
    all.push_back(
        once(beyond_ascii_, "beyond ASCII", [&] { return to_.characters(beyond_ascii); }));
    rest = rest.without(beyond_ascii);
  }
  if (has_all(controls)) {
    all.push_back(once(controls_, "controls", [&] { return escaped(controls); }));
    rest = rest.without(controls);
  }
  all.push_back(to_.characters(rest.within(plain)));
  all.push_back(escaped(rest.without(plain)));
  return to_.either(std::move(all));
}

expression json_grammar::escaped(const character_set& set) {
  std::vector<expression> all;
  for (const auto& r : set.ranges())
    for (char32_t c = r.first; c <= r.last; ++c) {
      const auto text = quoted(utf8_of(c));
      all.push_back(to_.text(std::string_view(text).substr(1, text.size() - 2)));
    }
  return to_.either(std::move(all));
}

expression json_grammar::string() {
  return once(string_, "string",
              [this] { return string_of(to_.repeat(string_character(), 0, std::nullopt)); });
}

expression json_grammar::string_of(expression content) {
  return to_.sequence({to_.text("\""), content, to_.text("\"")});
}

expression json_grammar::string_of_length(std::uint32_t least, std::optional<std::uint32_t> most) {
  return string_of(to_.repeat(string_character(), least, most));
}

expression json_grammar::string_except(std::vector<std::string> names) {
  std::vector<std::u32string> characters;
  for (const auto& name : names) {
    auto& to = characters.emplace_back();
    for (std::size_t at = 0; at < name.size();)
      to += next_character(name, at).value_or(0);
  }
  std::sort(characters.begin(), characters.end());
  return string_of(except(characters, 0));
}

// Strings that continue the first `at` characters, a common prefix of all names.
expression json_grammar::except(const std::vector<std::u32string>& names, std::size_t at) {
  std::map<char32_t, std::vector<std::u32string>> next;
  bool is_name = false;
  for (const auto& name : names) {
    is_name |= name.size() == at;
    if (name.size() > at)
      next[name[at]].push_back(name);
  }
  character_set followed;
  std::vector<expression> all;
  if (!is_name)
    all.push_back(to_.empty());
  for (const auto& [c, those] : next) {
    followed.add(c);
    all.push_back(to_.sequence({written({{c, c}}), except(those, at + 1)}));
  }
  const auto anything = once(anything_, "anything", [this] {
    return to_.repeat(written(character_set::all()), 0, std::nullopt);
  });
  all.push_back(to_.sequence({written(followed.inverted()), anything}));
  return to_.shared("name", to_.either(std::move(all)));
}

expression json_grammar::integer() {
  return once(integer_, "integer", [this] {
    return to_.sequence(
        {to_.optional(to_.text("-")),
         to_.either({to_.text("0"), to_.sequence({to_.byte_range('1', '9'), digits(0, 18)})})});
  });
}

expression json_grammar::number() {
  return once(number_, "number", [this] {
    return to_.sequence(
        {integer(), to_.optional(to_.sequence({to_.text("."), digits(1, 15)})),
         to_.optional(to_.sequence({any_of("eE"), to_.optional(any_of("+-")), digits(1, 2)}))});
  });
}

expression json_grammar::boolean() {
  return to_.either({to_.text("true"), to_.text("false")});
}

expression json_grammar::member(expression name, expression value) {
  return to_.sequence({name, to_.text(":"), gap(), value});
}

expression json_grammar::value() {
  return once(value_, "value", [this] {
    return to_.either({string(), number(), boolean(), null(), object(), array()});
  });
}

expression json_grammar::object() {
  return once(object_, "object", [this] {
    const auto one = to_.shared("member", member(string(), value()));
    const auto more = to_.repeat(to_.sequence({to_.text(","), gap(), one}), 0, std::nullopt);
    return to_.sequence(
        {to_.text("{"), gap(), to_.optional(to_.sequence({one, more, gap()})), to_.text("}")});
  });
}

expression json_grammar::array() {
  return once(array_, "array", [this] {
    const auto more = to_.repeat(to_.sequence({to_.text(","), gap(), value()}), 0, std::nullopt);
    return to_.sequence(
        {to_.text("["), gap(), to_.optional(to_.sequence({value(), more, gap()})), to_.text("]")});
  });
}

} // namespace baton::grammar
