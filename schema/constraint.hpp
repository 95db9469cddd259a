// What an answer must look like, as its request says it: carried with the sampling parameters from
// the door to the last stage, which makes masks of it (runtime/grammar). Plain data.
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
  calls = 6,       // calls of tools, as a family writes them (runtime/grammar/call_grammar.hpp)
};

struct constraint {
  constraint_kind kind = constraint_kind::json_object;
  std::string text;
  // The answer's text goes on with the prompt's: a space that its first token brings is part of it.
  bool continues_prompt = false;
  friend bool operator==(const constraint&, const constraint&) = default;
};

// None, or one that all copies share: a request's draws are many.
class shared_constraint {
public:
  shared_constraint() = default;
  shared_constraint(constraint c) : of_(std::make_shared<const constraint>(std::move(c))) {}

  explicit operator bool() const noexcept { return of_ != nullptr; }
  const constraint& operator*() const noexcept { return *of_; }
  const constraint* operator->() const noexcept { return of_.get(); }
  // The same memory; equal ones may have others.
  const constraint* get() const noexcept { return of_.get(); }

  friend bool operator==(const shared_constraint& a, const shared_constraint& b) {
    return a.of_ == b.of_ || (a.of_ && b.of_ && *a.of_ == *b.of_);
  }

private:
  std::shared_ptr<const constraint> of_;
};

} // namespace baton
