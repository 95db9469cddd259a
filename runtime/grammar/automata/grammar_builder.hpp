// Builds a grammar from expressions over bytes and named rules. Used by the front ends (JSON
// schema, regex, choice, EBNF), which need no knowledge of nodes and edges.
#pragma once

#include "runtime/grammar/automata/character_set.hpp"
#include "runtime/grammar/automata/graph.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::grammar {

// Handles of one builder. An expression may be used in several places.
struct expression {
  std::uint32_t index = 0;
};
struct rule_id {
  std::uint32_t index = 0;
};

class grammar_builder {
public:
  expression empty() const noexcept { return {0}; }   // matches only the empty text
  expression nothing() const noexcept { return {1}; } // matches no text
  expression text(std::string_view bytes);
  expression byte_range(std::uint8_t first, std::uint8_t last);
  // One character of the set, as UTF-8.
  expression characters(const character_set& set);
  expression sequence(std::vector<expression> parts);
  expression either(std::vector<expression> alternatives);
  // Repeats between `least` and `most` times; nullopt: unbounded.
  expression repeat(expression what, std::uint32_t least, std::optional<std::uint32_t> most);
  expression optional(expression what) { return repeat(what, 0, 1); }
  expression call(rule_id rule);

  // `name` is used in errors.
  rule_id add_rule(std::string name);
  void define(rule_id rule, expression what);
  // Creates a rule for an expression that is used in many places.
  expression shared(std::string name, expression what);

  // Errors: invalid_value (a limit is exceeded, a rule is undefined or left-recursive, or no text
  // matches).
  result<std::shared_ptr<const graph>> build(rule_id root) const;

private:
  friend class graph_maker;
  enum class kind : std::uint8_t { empty, nothing, text, range, sequence, either, repeat, call };
  struct entry {
    kind what = kind::empty;
    std::uint8_t first = 0, last = 0;  // range
    std::uint32_t least = 0, most = 0; // repeat; most: UINT32_MAX is unbounded
    std::uint32_t rule = 0;            // call
    std::string bytes{};               // text
    std::vector<expression> parts{};
  };
  struct named_rule {
    std::string name;
    std::optional<expression> is;
  };
  expression add(entry e);

  std::vector<entry> entries_{{}, {.what = kind::nothing}};
  std::vector<named_rule> rules_;
  bool is_too_large_ = false; // too many expressions or rules; reported by build
};

} // namespace baton::grammar
