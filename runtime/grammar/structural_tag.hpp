// Reads XGrammar's structural tags, which vLLM and SGLang take as a format of answers: text in
// which some beginnings oblige the model to a structure.
//
//   {"type": "structural_tag", "format": FORMAT}
//   {"type": "structural_tag", "triggers": [...], "structures": [{"begin", "schema", "end"}]}
//
// The second is short for triggered tags of JSON schemas. A FORMAT has a `type`:
//   const_string {value}                 json_schema {json_schema}      regex {pattern}
//   grammar {grammar}                    any_text {excludes}            sequence {elements}
//   or {elements}                        tag {begin, content, end}
//   triggered_tags {triggers, tags, at_least_one, stop_after_first, excludes}
//   tags_with_separator {tags, separator, at_least_one, stop_after_first}
// Any text within a tag ends before the tag's `end`. Marks are text: a token that the model's
// vocabulary marks as special is none of it. Other types are refused by name.
//
// Source: https://xgrammar.mlc.ai/docs/tutorials/structural_tag.html
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"
#include "schema/constraint.hpp"

#include <functional>
#include <string_view>

namespace baton::grammar {

// `read_other` reads the constraints within (JSON schemas, expressions, grammars). Errors:
// invalid_value, unsupported_parameter; a message names the place in `source`.
result<expression>
read_structural_tag(grammar_builder& to, std::string_view source,
                    const std::function<result<expression>(const constraint&)>& read_other);

} // namespace baton::grammar
