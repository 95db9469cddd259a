// Converts regular expressions to grammars: the syntax that JavaScript, Python and PCRE share.
// Constructs that a grammar cannot express (look-around, back-references, word borders) or that are
// not supported (flags, Unicode properties) are refused by name.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <functional>
#include <string_view>

namespace baton::grammar {

struct regex_style {
  // Writes one character of a set: as UTF-8, or within a JSON string.
  std::function<expression(const character_set&)> write;
  // Whether it may match anywhere in the text, as JSON schema's `pattern`; `^` and `$` anchor it.
  // Otherwise it must match the whole text, and `^` and `$` are optional.
  bool is_search = false;
};

// Errors: invalid_value, unsupported_parameter.
result<expression> read_regex(grammar_builder& to, std::string_view pattern,
                              const regex_style& style);

} // namespace baton::grammar
