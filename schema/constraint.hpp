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
  grammar = 5,     // EBNF, whose first rule is `root`
  calls = 6,       // tool calls in the family's format (runtime/grammar/call_grammar.hpp)
};

struct constraint {
  constraint_kind kind = constraint_kind::json_object;
  std::string text;
  // The answer continues the prompt's text: a space that its first token brings is part of it.
  bool continues_prompt = false;
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
