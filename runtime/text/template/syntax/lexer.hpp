// Cuts a template's source into tokens, with the whitespace control that Hugging Face configures:
// trim_blocks and lstrip_blocks on, one newline at the end dropped. Called by the parser.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::text::jinja {

struct token {
  enum class kind : std::uint8_t {
    data,         // literal text, whitespace control applied
    output_begin, // {{
    output_end,   // }}
    block_begin,  // {%
    block_end,    // %}
    name,
    string, // unescaped
    integer,
    real,
    symbol, // an operator or bracket, in `text`
    end
  };
  kind type;
  int line;
  std::string text;
};

// The last token is always `end`. Errors: template_failed with the line.
result<std::vector<token>> tokenize(std::string_view source);

} // namespace baton::text::jinja
