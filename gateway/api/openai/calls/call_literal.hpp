// Values of tool calls that are written as literals of Python, or in Gemma's notation, as JSON.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

// Finds the end of a literal: the first of `,`, `)`, `]`, `}` outside of its brackets and texts.
// `quote` encloses a text besides " and '; it may be empty.
class literal_scanner {
public:
  explicit literal_scanner(std::string_view quote) : quote_(quote) {}

  // Reads on from `at`, which it moves. False: the text ends before.
  bool find_end(std::string_view text, std::size_t& at);

private:
  std::string_view quote_;
  std::size_t depth_ = 0;
  char mark_ = 0; // of the text that it is in; 'q': `quote`
};

// The JSON of a literal: a text in "", '' or `quote`, a number, a list, a tuple, a map, true, false
// or null. The last three may be True, False and None. With a `quote` the names of a map may be
// bare. nullopt: it is none, or nested too deeply.
std::optional<std::string> json_of_literal(std::string_view text, std::string_view quote);

} // namespace baton::gateway
