// Reads grammars in Lark's notation (https://lark-parser.readthedocs.io/en/stable/grammar.html), as
// vLLM's users send them. The rule `start` is the answer. Supports rules `name: ...`, terminals
// `NAME: ...`, literals "..." and "..."i, expressions /.../, ranges "a".."z", groups, `[x]`, `|`.
// Supports `*`, `+`, `?`, `~n`, `~n..m`, `->`, comments, `%ignore`, and `%import` of Lark's common
// terminals.
//
// A grammar for generation has no lexer: a terminal is any text that it matches, not the longest
// one, and priorities have no effect. Ignored text may stand before, between and after
// terminals.
//
// Refused by name: flags of expressions, templates, `%declare`, `%override`, `%extend`, other
// imports.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <string_view>

namespace baton::grammar {

// Whether the first statement is Lark's and not EBNF's `name ::= ...`.
bool is_lark(std::string_view source);

// Requires: check_source. Errors: invalid_value, unsupported_parameter.
result<expression> read_lark(grammar_builder& to, std::string_view source);

} // namespace baton::grammar
