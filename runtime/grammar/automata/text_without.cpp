#include "runtime/grammar/automata/text_without.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace baton::grammar {
namespace {

std::u32string characters_of(std::string_view text) {
  std::u32string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = next_character(text, at);
    if (!c)
      break; // marks are UTF-8
    out += *c;
  }
  return out;
}

} // namespace

// One rule for each beginning of a mark that the text so far may end with (Aho and Corasick, 1975).
expression text_without(grammar_builder& to, std::span<const std::string_view> marks,
                        const character_set& never_first) {
  std::vector<std::u32string> all;
  std::map<std::u32string, rule_id> states;
  character_set alphabet;
  for (const auto mark : marks) {
    all.push_back(characters_of(mark));
    for (std::size_t n = 0; n < all.back().size(); ++n) {
      alphabet.add(all.back()[n]);
      if (const auto begun = all.back().substr(0, n); !states.contains(begun))
        states.emplace(begun, to.add_rule("text"));
    }
  }
  const auto ends_with_mark = [&](const std::u32string& text) {
    return std::any_of(all.begin(), all.end(), [&](const auto& m) { return text.ends_with(m); });
  };
  const auto alternatives = [&](const std::u32string& from, const character_set& never) {
    std::map<std::u32string, character_set> ways;
    ways[{}] = alphabet.inverted().without(never);
    for (const auto& range : alphabet.ranges())
      for (auto c = range.first; c <= range.last; ++c) {
        auto text = from + c;
        if (ends_with_mark(text) || never.contains(c))
          continue;
        while (!states.contains(text))
          text.erase(0, 1);
        ways[text].add(c);
      }
    std::vector<expression> out{to.empty()};
    for (const auto& [text, set] : ways)
      if (!set.is_empty())
        out.push_back(to.sequence({to.characters(set), to.call(states.at(text))}));
    return to.either(std::move(out));
  };
  for (const auto& [from, rule] : states)
    to.define(rule, alternatives(from, {}));
  return never_first.is_empty() ? to.call(states.at({})) : alternatives({}, never_first);
}

expression text_without(grammar_builder& to, std::string_view mark,
                        const character_set& never_first) {
  return text_without(to, std::span(&mark, 1), never_first);
}

} // namespace baton::grammar
