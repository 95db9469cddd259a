// Grammars in EBNF as llama.cpp (GBNF) and XGrammar read it: rules `name ::= ...`, of which `root`
// is the answer; literals "..." with escapes, classes [a-z], [^...], `.`, groups, `|`, `*`, `+`,
// `?`, {m,n}, comments behind #. Rules that begin with themselves are refused, and XGrammar's
// look-ahead.
#pragma once

#include "runtime/grammar/grammar_builder.hpp"

#include <string_view>

namespace baton::grammar {

// The rule `root`. Errors: invalid_value, unsupported_parameter.
result<rule_id> read_ebnf(grammar_builder& to, std::string_view source);

} // namespace baton::grammar
