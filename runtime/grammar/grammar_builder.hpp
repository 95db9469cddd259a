// Puts a grammar together: expressions over bytes, rules that name them. Used by the front ends
// (JSON schema, regex, choice, EBNF), each of which knows nothing of nodes and edges.
#pragma once

#include "runtime/grammar/character_set.hpp"
#include "runtime/grammar/graph.hpp"
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
  expression empty() const noexcept { return {0}; }   // the text of no bytes
  expression nothing() const noexcept { return {1}; } // no text at all
  expression text(std::string_view bytes);
  expression byte_range(std::uint8_t first, std::uint8_t last);
  // One character of the set, as UTF-8.
  expression characters(const character_set& set);
  expression sequence(std::vector<expression> parts);
  expression either(std::vector<expression> alternatives);
  // At least `least` times, at most `most`; nothing: without end.
  expression repeat(expression what, std::uint32_t least, std::optional<std::uint32_t> most);
  expression optional(expression what) { return repeat(what, 0, 1); }
  expression call(rule_id rule);

  // `name` is for errors.
  rule_id add_rule(std::string name);
  void define(rule_id rule, expression what);
  // A rule of its own for an expression that stands in many places.
  expression shared(std::string name, expression what);

  // Errors: invalid_value (a limit is passed, a rule is not defined, begins with itself, or no text
  // at all matches).
  result<std::shared_ptr<const graph>> build(rule_id root) const;

private:
  friend class graph_maker;
  enum class kind : std::uint8_t { empty, nothing, text, range, sequence, either, repeat, call };
  struct entry {
    kind what = kind::empty;
    std::uint8_t first = 0, last = 0;  // range
    std::uint32_t least = 0, most = 0; // repeat; most: UINT32_MAX is without end
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
  bool is_too_large_ = false; // an expression or a rule too many: said by build
};

} // namespace baton::grammar
