// Words as in Python's re and textwrap, and the filter that wraps lines.
#pragma once

#include "runtime/text/template/interpreter.hpp"

namespace baton::text::jinja {

// Letters, digits and '_', as Python's \w; beyond ASCII all but spaces and general punctuation.
bool is_word_character(char32_t c);

// wordwrap(width=79, break_long_words=true, wrapstring='\n', break_on_hyphens=true)
maybe filter_wordwrap(interpreter& run, const value& self, const bound_arguments& args);

} // namespace baton::text::jinja
