// Reads grammars in the EBNF of llama.cpp (GBNF) and XGrammar: rules `name ::= ...`, where `root`
// is the answer. Supports literals "..." with escapes, classes `[a-z]`, `[^...]`, `.`, groups, `|`,
// `*`, `+`, `?`, `{m,n}`, and comments after #. A rule may begin with itself (rule_reader.hpp).
// Refuses XGrammar's look-ahead.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <string_view>

namespace baton::grammar {

// Returns the rule `root`. Requires: check_source. Errors: invalid_value, unsupported_parameter.
result<rule_id> read_ebnf(grammar_builder& to, std::string_view source);

} // namespace baton::grammar
