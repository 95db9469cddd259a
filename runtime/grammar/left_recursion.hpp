// Rules of grammars that begin with themselves, as `sum: sum "+" term | term`. Pure.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <vector>

namespace baton::grammar {

using rule_alternatives = std::vector<std::vector<expression>>; // the parts of each

expression either_of(grammar_builder& to, rule_alternatives alternatives);

// The texts of a rule. `self` is the expression with which its alternatives call the rule. An
// alternative `self x` becomes any number of `x` behind the others: `other x*`. That accepts the
// same texts. A rule that begins with itself through another rule, or behind a part that may be
// empty, is left as it is, and refused by grammar_builder::build.
expression rule_body(grammar_builder& to, rule_alternatives alternatives, expression self);

} // namespace baton::grammar
