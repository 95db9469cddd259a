// JSON's grammar (RFC 8259) in pieces, for the schema readers. White space is allowed but bounded:
// a gap is empty, one space, or a line end with an indentation. A lone surrogate is not a
// character.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace baton::grammar {

class json_grammar {
public:
  explicit json_grammar(grammar_builder& to) : to_(to) {}

  expression gap();
  // One character of a string's content, in any notation.
  expression string_character();
  // One character of a set in its plain notation: escaped only if necessary.
  expression written(const character_set& set);
  expression string(); // any
  expression string_of(expression content);
  expression string_of_length(std::uint32_t least, std::optional<std::uint32_t> most);
  // Any string but these, with characters as in written().
  expression string_except(std::vector<std::string> names);
  expression integer(); // up to 19 digits
  expression number();  // up to 15 digits after the point and an exponent of up to two
  expression boolean();
  expression null() { return to_.text("null"); }
  expression value(); // any value, at any depth
  expression object();
  expression array();
  // "name": value
  expression member(expression name, expression value);

private:
  expression digits(std::uint32_t least, std::uint32_t most);
  expression any_of(const char* bytes);
  // Creates the expression on first use.
  expression once(std::optional<expression>& where, const char* name,
                  const std::function<expression()>& make);
  expression escaped(const character_set& set);
  expression except(const std::vector<std::u32string>& names, std::size_t at);

  grammar_builder& to_;
  std::optional<expression> beyond_ascii_, controls_, anything_;
  std::optional<expression> gap_, character_, string_, integer_, number_, value_, object_, array_;
};

} // namespace baton::grammar
