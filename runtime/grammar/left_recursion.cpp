#include "runtime/grammar/left_recursion.hpp"

namespace baton::grammar {

expression either_of(grammar_builder& to, rule_alternatives alternatives) {
  std::vector<expression> all;
  for (auto& parts : alternatives)
    all.push_back(to.sequence(std::move(parts)));
  return to.either(std::move(all));
}

expression rule_body(grammar_builder& to, rule_alternatives alternatives, expression self) {
  std::vector<expression> first, more;
  for (auto& parts : alternatives) {
    const bool is_recursive = !parts.empty() && parts.front().index == self.index;
    if (is_recursive)
      parts.erase(parts.begin());
    if (!is_recursive)
      first.push_back(to.sequence(std::move(parts)));
    else if (!parts.empty()) // `x: x` adds no text
      more.push_back(to.sequence(std::move(parts)));
  }
  const auto begin = to.either(std::move(first));
  if (more.empty())
    return begin;
  return to.sequence({begin, to.repeat(to.either(std::move(more)), 0, std::nullopt)});
}

} // namespace baton::grammar
