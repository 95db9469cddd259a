// Parses a template's source into its syntax tree, with Jinja's grammar and precedences. Called
// once per template; unsupported constructs are refused by name.
#pragma once

#include "runtime/text/template/syntax/syntax.hpp"
#include "schema/result.hpp"

#include <cstddef>
#include <string_view>

namespace baton::text::jinja {

// `nesting_max` bounds the depth of the tree, and with it the stack of parser and interpreter.
// Errors: template_failed with the line.
result<syntax_tree> parse_template(std::string_view source, std::size_t nesting_max);

} // namespace baton::text::jinja
