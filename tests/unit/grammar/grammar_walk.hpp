// Shared by the grammar tests: checks whether a text matches, and makes texts that do.
#pragma once

#include "runtime/grammar/automata/automaton.hpp"
#include "runtime/grammar/compile.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <string_view>

namespace baton::test {

inline grammar::automaton automaton_of(const constraint& c) {
  auto rules = grammar::compile(c);
  REQUIRE_MESSAGE(rules, rules.error().message);
  return grammar::automaton(*rules);
}

inline bool matches(grammar::automaton& of, std::string_view text) {
  auto s = of.start();
  for (const char byte : text)
    s = of.step(s, static_cast<std::uint8_t>(byte));
  return of.accepts(s);
}

inline bool matches(const constraint& c, std::string_view text) {
  auto of = automaton_of(c);
  return matches(of, text);
}

// The error with which a constraint is rejected.
inline error refusal_of(const constraint& c) {
  auto rules = grammar::compile(c);
  REQUIRE_FALSE(rules);
  return rules.error();
}

// A random matching text, built byte by byte. The longer it is, the more likely it ends where it
// may. Nothing: it has become too long.
inline std::optional<std::string> random_text(grammar::automaton& of, std::mt19937& random,
                                              std::size_t bytes_max = 4000) {
  std::string text;
  auto s = of.start();
  while (text.size() < bytes_max) {
    if (of.accepts(s) && random() % 4 == 0)
      return text;
    std::vector<std::uint8_t> next;
    for (int byte = 0; byte < 256; ++byte)
      if (of.step(s, static_cast<std::uint8_t>(byte)) != grammar::automaton::dead)
        next.push_back(static_cast<std::uint8_t>(byte));
    if (next.empty()) {
      CHECK_MESSAGE(of.accepts(s), text << " cannot be continued");
      return text;
    }
    // Bytes that end something get a higher weight; otherwise strings would never end.
    std::uint8_t byte = next[random() % next.size()];
    for (const char end : {'"', '}', ']'})
      for (const auto n : next)
        if (n == static_cast<std::uint8_t>(end) && random() % 3 == 0)
          byte = n;
    text += static_cast<char>(byte);
    s = of.step(s, byte);
  }
  return std::nullopt;
}

} // namespace baton::test
