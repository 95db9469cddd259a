// Regular expressions to grammars: the syntax that JavaScript, Python and PCRE share. What a
// grammar cannot say (look-around, back-references, word borders) or what is left out (flags,
// Unicode properties) is refused by name.
#pragma once

#include "runtime/grammar/grammar_builder.hpp"

#include <functional>
#include <string_view>

namespace baton::grammar {

struct regex_style {
  // One character of a set, as it is to be written: as UTF-8, or within a JSON string.
  std::function<expression(const character_set&)> write;
  // It may match anywhere in the text, as JSON schema's `pattern`: `^` and `$` say where not.
  // Else it is the whole text, and they may stand there for clarity.
  bool is_search = false;
};

// Errors: invalid_value, unsupported_parameter.
result<expression> read_regex(grammar_builder& to, std::string_view pattern,
                              const regex_style& style);

} // namespace baton::grammar
