// JSON's own grammar (RFC 8259) in pieces, for those who put schemas together. White space stands
// where a model likes it, but never without end: a gap is nothing, one space, or a line end with an
// indentation. Half of a surrogate pair is no character.
#pragma once

#include "runtime/grammar/grammar_builder.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace baton::grammar {

class json_grammar {
public:
  explicit json_grammar(grammar_builder& to) : to_(to) {}

  expression gap();
  // One character of a string's content, however it is written.
  expression string_character();
  // One character of a set, as it is written when nothing else is asked for: escaped only where it
  // must be.
  expression written(const character_set& set);
  expression string(); // any
  expression string_of(expression content);
  expression string_of_length(std::uint32_t least, std::optional<std::uint32_t> most);
  // Any string but these, its characters as written().
  expression string_except(std::vector<std::string> names);
  expression integer(); // up to 19 digits
  expression number();  // with up to 15 digits behind the point and an exponent of up to two
  expression boolean();
  expression null() { return to_.text("null"); }
  expression value(); // any, however deep
  expression object();
  expression array();
  // "name": value
  expression member(expression name, expression value);

private:
  expression digits(std::uint32_t least, std::uint32_t most);
  expression any_of(const char* bytes);
  // Made once.
  expression once(std::optional<expression>& where, const char* name,
                  const std::function<expression()>& make);
  expression escaped(const character_set& set);
  expression except(const std::vector<std::u32string>& names, std::size_t at);

  grammar_builder& to_;
  std::optional<expression> beyond_ascii_, controls_, anything_;
  std::optional<expression> gap_, character_, string_, integer_, number_, value_, object_, array_;
};

} // namespace baton::grammar
