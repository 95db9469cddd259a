#include "runtime/grammar/rule_reader.hpp"

#include <algorithm>

namespace baton::grammar {

expression either_of(grammar_builder& to, rule_alternatives alternatives) {
  std::vector<expression> all;
  for (auto& parts : alternatives)
    all.push_back(to.sequence(std::move(parts)));
  return to.either(std::move(all));
}

rule_id rule_reader::rule_of(const std::string& name) {
  const auto it = rules_.find(name);
  return it != rules_.end() ? it->second : rules_.emplace(name, to_.add_rule(name)).first->second;
}

expression rule_reader::call(const std::string& name) {
  return name == self_name_ ? self_ : to_.call(rule_of(name));
}

bool rule_reader::begin(const std::string& name) {
  self_name_ = name;
  self_ = to_.call(rule_of(name));
  return defined_.insert(name).second;
}

void rule_reader::define(rule_alternatives alternatives) {
  rule_alternatives first, more;
  for (auto& parts : alternatives) {
    const bool is_recursive = !parts.empty() && parts.front().index == self_.index;
    if (is_recursive)
      parts.erase(parts.begin());
    if (!is_recursive)
      first.push_back(std::move(parts));
    else if (!parts.empty()) // `x: x` adds no text
      more.push_back(std::move(parts));
  }
  auto is = either_of(to_, std::move(first));
  if (!more.empty())
    is = to_.sequence({is, to_.repeat(either_of(to_, std::move(more)), 0, std::nullopt)});
  to_.define(rule_of(self_name_), is);
}

const std::string* rule_reader::undefined() const {
  const auto it = std::find_if(rules_.begin(), rules_.end(),
                               [this](const auto& rule) { return !defined_.contains(rule.first); });
  return it == rules_.end() ? nullptr : &it->first;
}

std::optional<rule_id> rule_reader::find(const std::string& name) const {
  const auto it = rules_.find(name);
  return it == rules_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<expression> rule_reader::accept_repetition(expression of) {
  if (in_.accept("*"))
    return to_.repeat(of, 0, std::nullopt);
  if (in_.accept("+"))
    return to_.repeat(of, 1, std::nullopt);
  if (in_.accept("?"))
    return to_.optional(of);
  return std::nullopt;
}

result<void> rule_reader::count_repetition() {
  constexpr std::size_t repetitions_max = 16u << 10;
  if (++repetitions_ > repetitions_max)
    return wrong("too many repetitions");
  return {};
}

result<char32_t> rule_reader::read_escape(std::string_view names, std::string_view meanings) {
  if (in_.is_at_end())
    return wrong("a '\\' with nothing after it");
  const char32_t escaped = in_.next();
  const std::size_t digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : escaped == 'U' ? 8 : 0;
  if (digits > 0) {
    const auto code = in_.number(16, digits, digits);
    character_set set;
    if (code)
      set.add(*code);
    if (set.is_empty())
      return wrong("a code that is not a character");
    return *code;
  }
  const auto at = escaped < 0x80 ? names.find(static_cast<char>(escaped)) : std::string::npos;
  if (at == std::string::npos)
    return wrong("an unknown escape");
  return static_cast<char32_t>(meanings[at]);
}

} // namespace baton::grammar
