#include "runtime/grammar/compile.hpp"

#include "runtime/grammar/automata/control_text.hpp"
#include "runtime/grammar/automata/regex.hpp"
#include "runtime/grammar/automata/text_reader.hpp"
#include "runtime/grammar/automata/text_without.hpp"
#include "runtime/grammar/call_grammar.hpp"
#include "runtime/grammar/ebnf.hpp"
#include "runtime/grammar/json_schema/json_grammar.hpp"
#include "runtime/grammar/json_schema/json_schema.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"
#include "runtime/grammar/lark.hpp"
#include "runtime/grammar/structural_tag.hpp"
#include "runtime/text/stream/reasoning_style.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

result<expression> read_choice(grammar_builder& to, std::string_view source) {
  if (auto ok = check_source(source, "choice"); !ok)
    return ok.error();
  const auto list = parse_json(source);
  if (!list)
    return list.error();
  if (!list->is_array() || list->items.empty())
    return fail(errc::invalid_value, "a choice is an array of strings, at least one");
  std::vector<expression> all;
  for (const auto& one : list->items) {
    if (!one.is_string() || one.text.empty())
      return fail(errc::invalid_value, "a choice is an array of strings, none of them empty");
    all.push_back(to.text(one.text));
  }
  return to.either(std::move(all));
}

result<expression> read_grammar(grammar_builder& to, std::string_view source) {
  if (auto ok = check_source(source, "grammar"); !ok)
    return ok.error();
  if (is_lark(source))
    return read_lark(to, source);
  const auto root = read_ebnf(to, source);
  return root ? to.call(*root) : result<expression>(root.error());
}

result<expression> read(grammar_builder& to, const constraint& c) {
  const auto read_other = [&to](const constraint& other) { return read(to, other); };
  switch (c.kind) {
  case constraint_kind::json_object:
    return json_grammar(to).object();
  case constraint_kind::json_schema:
    return read_json_schema(to, c.text);
  case constraint_kind::regex:
    return read_regex(to, c.text,
                      {[&to](const character_set& set) { return to.characters(set); }, false});
  case constraint_kind::choice:
    return read_choice(to, c.text);
  case constraint_kind::grammar:
    return read_grammar(to, c.text);
  case constraint_kind::calls:
    return read_calls(to, c.text, read_other);
  case constraint_kind::tags:
    return read_structural_tag(to, c.text, read_other);
  case constraint_kind::free: { // control tokens, too
    const auto control = static_cast<std::uint8_t>(control_byte);
    return to.repeat(
        to.either({to.characters(character_set::all()), to.byte_range(control, control)}), 0,
        std::nullopt);
  }
  }
  return fail(errc::invalid_value, "there is no constraint of kind {}", static_cast<int>(c.kind));
}

// Reasoning with the mark that ends it, and white space, before the answer.
expression behind_reasoning(grammar_builder& to, const constraint& c, expression answer) {
  const auto& row = text::row_of(c.reasoning);
  const auto mark = [&](std::string_view text) {
    return text_with_controls(to, text, row.controls);
  };
  const auto space =
      to.repeat(to.characters({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}), 0, std::nullopt);
  // Calls have headers of their own, and any text may have one.
  const bool has_header = c.kind == constraint_kind::calls || c.kind == constraint_kind::free;
  if (row.has_channels && !has_header)
    answer = to.sequence({mark(row.answer), answer});
  const auto rest = to.sequence({text_without(to, row.close), mark(row.close),
                                 row.has_channels ? mark(row.next) : space, answer});
  if (c.begins_in_reasoning)
    return rest;
  return to.either({answer, to.sequence({space, mark(row.open), rest})});
}

} // namespace

result<std::shared_ptr<const graph>> compile(const constraint& c) {
  grammar_builder builder;
  auto is = read(builder, c);
  if (!is)
    return is.error();
  if (c.reasoning != reasoning_format::none)
    *is = behind_reasoning(builder, c, *is);
  const auto root = builder.add_rule("root");
  builder.define(root, *is);
  return builder.build(root);
}

} // namespace baton::grammar
