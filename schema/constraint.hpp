// The format that a request demands of its answer. Travels with the sampling parameters from the
// API server to the last stage, which turns it into masks (runtime/grammar). Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace baton {

// Numbers are on the wire: never renumbered.
enum class constraint_kind : std::uint8_t {
  json_object = 1, // any JSON object; no text
  json_schema = 2, // the schema
  regex = 3,       // the whole answer matches it
  choice = 4,      // a JSON array of strings: one of them
  grammar = 5,     // EBNF, whose first rule is `root`, or Lark, whose first is `start`
  calls = 6,       // tool calls in the family's format (runtime/grammar/call_grammar.hpp)
  free = 7,        // any text, behind reasoning of a bounded length
  tags = 8,        // XGrammar's structural tags (runtime/grammar/structural_tag.hpp)
};
inline constexpr auto constraint_kind_last = constraint_kind::tags;

// How a model writes what it thinks before it answers; none: it does not
// (runtime/text/stream/reasoning_style.hpp).
enum class reasoning_format : std::uint8_t {
  none = 0,
  think = 1,
  seed = 2,
  granite = 3,
  mistral = 4,
  gemma4 = 5,
  harmony = 6,
};
inline constexpr auto reasoning_format_last = reasoning_format::harmony;

struct constraint {
  constraint_kind kind = constraint_kind::json_object;
  std::string text;
  // The answer continues the prompt's text: a space that its first token brings is part of it.
  bool continues_prompt = false;
  // The answer may think first, in this format; only what follows is constrained. With
  // `begins_in_reasoning` the prompt has begun it, and the answer ends it.
  reasoning_format reasoning = reasoning_format::none;
  bool begins_in_reasoning = false;
  std::int32_t reasoning_tokens_max = -1; // after that many tokens it ends; -1: no limit
  friend bool operator==(const constraint&, const constraint&) = default;
};

// Empty, or a constraint shared by all copies, because a request has many draws.
class shared_constraint {
public:
  shared_constraint() = default;
  shared_constraint(constraint c) : of_(std::make_shared<const constraint>(std::move(c))) {}

  explicit operator bool() const noexcept { return of_ != nullptr; }
  const constraint& operator*() const noexcept { return *of_; }
  const constraint* operator->() const noexcept { return of_.get(); }
  // The address; equal constraints may have different ones.
  const constraint* get() const noexcept { return of_.get(); }

  friend bool operator==(const shared_constraint& a, const shared_constraint& b) {
    return a.of_ == b.of_ || (a.of_ && b.of_ && *a.of_ == *b.of_);
  }

private:
  std::shared_ptr<const constraint> of_;
};

} // namespace baton
