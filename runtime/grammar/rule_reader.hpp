// The common part of the readers of EBNF and Lark: named rules, rules that begin with themselves
// (as `sum: sum "+" term | term`), repetitions and escapes. Pure.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"
#include "runtime/grammar/automata/text_reader.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace baton::grammar {

using rule_alternatives = std::vector<std::vector<expression>>; // the parts of each

expression either_of(grammar_builder& to, rule_alternatives alternatives);

class rule_reader {
protected:
  rule_reader(grammar_builder& to, std::string_view source) : to_(to), in_(source) {}

  template <class... Args>
  error wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return fail(errc::invalid_value, "the grammar has {}, at position {}",
                fmt::format(text, std::forward<Args>(args)...), in_.position());
  }

  // The rule of this name, which may be defined later.
  rule_id rule_of(const std::string& name);
  // A call of the rule. Within its own definition all calls are one expression: see define.
  expression call(const std::string& name);
  // The definition of this rule is read from here on. False: it is defined already.
  bool begin(const std::string& name);
  // Defines the rule that was begun. Alternatives that begin with it, `self x`, follow the others
  // any number of times: `other x*`. That accepts the same texts. A rule that begins with itself
  // through another rule, or behind a part that may be empty, is left as it is, and refused by
  // grammar_builder::build.
  void define(rule_alternatives alternatives);
  // A name that has no definition; or null.
  const std::string* undefined() const;
  // Nothing: there is no such rule.
  std::optional<rule_id> find(const std::string& name) const;

  // `of` behind a `*`, `+` or `?`, if one of them is here.
  std::optional<expression> accept_repetition(expression of);
  // Counts the repetitions of the whole grammar. Errors: invalid_value (too many).
  result<void> count_repetition();
  // The character behind a backslash: one of `names`, which has the meaning at the same place, or
  // xHH, uHHHH, UHHHHHHHH. Errors: invalid_value.
  result<char32_t> read_escape(std::string_view names, std::string_view meanings);

  grammar_builder& to_;
  text_reader in_;

private:
  std::map<std::string, rule_id> rules_; // names seen so far
  std::set<std::string> defined_;
  std::string self_name_; // of the definition that is read
  expression self_{};
  std::size_t repetitions_ = 0;
};

} // namespace baton::grammar
