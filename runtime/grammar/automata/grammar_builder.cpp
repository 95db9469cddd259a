#include "runtime/grammar/automata/grammar_builder.hpp"

#include "runtime/grammar/automata/graph_maker.hpp"
#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::grammar {

expression grammar_builder::add(entry e) {
  if (entries_.size() == grammar_limits::expressions_max) {
    is_too_large_ = true;
    return empty();
  }
  entries_.push_back(std::move(e));
  return {static_cast<std::uint32_t>(entries_.size() - 1)};
}

expression grammar_builder::text(std::string_view bytes) {
  if (bytes.empty())
    return empty();
  return add({.what = kind::text, .bytes = std::string(bytes)});
}

expression grammar_builder::byte_range(std::uint8_t first, std::uint8_t last) {
  return add({.what = kind::range, .first = first, .last = last});
}

expression grammar_builder::characters(const character_set& set) {
  std::vector<expression> alternatives;
  for (const byte_pattern& p : utf8_patterns(set)) {
    std::vector<expression> bytes;
    for (std::size_t i = 0; i < p.size; ++i)
      bytes.push_back(byte_range(p.bytes[i].first, p.bytes[i].last));
    alternatives.push_back(sequence(std::move(bytes)));
  }
  return either(std::move(alternatives));
}

expression grammar_builder::sequence(std::vector<expression> parts) {
  if (parts.empty())
    return empty();
  return parts.size() == 1 ? parts.front()
                           : add({.what = kind::sequence, .parts = std::move(parts)});
}

expression grammar_builder::either(std::vector<expression> alternatives) {
  if (alternatives.empty())
    return nothing();
  return alternatives.size() == 1 ? alternatives.front()
                                  : add({.what = kind::either, .parts = std::move(alternatives)});
}

expression grammar_builder::repeat(expression what, std::uint32_t least,
                                   std::optional<std::uint32_t> most) {
  if (most && *most < least)
    return nothing();
  if (most == 0u)
    return empty();
  if (least == 1 && most == 1u)
    return what;
  if (least > grammar_limits::repeat_max || (most && *most > grammar_limits::repeat_max)) {
    is_too_large_ = true;
    return empty();
  }
  return add(
      {.what = kind::repeat, .least = least, .most = most.value_or(UINT32_MAX), .parts = {what}});
}

expression grammar_builder::call(rule_id rule) {
  return add({.what = kind::call, .rule = rule.index});
}

rule_id grammar_builder::add_rule(std::string name) {
  if (rules_.size() == grammar_limits::rules_max) {
    is_too_large_ = true;
    return {0};
  }
  rules_.push_back({std::move(name), std::nullopt});
  return {static_cast<std::uint32_t>(rules_.size() - 1)};
}

void grammar_builder::define(rule_id rule, expression what) {
  rules_[rule.index].is = what;
}

expression grammar_builder::shared(std::string name, expression what) {
  const auto rule = add_rule(std::move(name));
  if (!is_too_large_)
    define(rule, what);
  return call(rule);
}

result<std::shared_ptr<const graph>> grammar_builder::build(rule_id root) const {
  if (is_too_large_)
    return fail(errc::invalid_value,
                "it is too large: more than {} rules or {} expressions, or repeated more than {} "
                "times",
                grammar_limits::rules_max, grammar_limits::expressions_max,
                grammar_limits::repeat_max);
  return graph_maker(*this).make(root.index);
}

} // namespace baton::grammar
