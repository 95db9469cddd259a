// Reads a source text character by character. Used by the readers of regular expressions, EBNF and
// JSON.
#pragma once

#include "runtime/grammar/automata/character_set.hpp"
#include "runtime/grammar/automata/graph.hpp"
#include "schema/result.hpp"

#include <optional>
#include <string_view>

namespace baton::grammar {

inline constexpr std::size_t repeat_digits_max = 6; // above repeat_max, without overflow

class text_reader {
public:
  // Requires: `text` is UTF-8 (see is_utf8).
  explicit text_reader(std::string_view text) : text_(text) {}

  bool is_at_end() const noexcept { return at_ == text_.size(); }
  std::size_t position() const noexcept { return at_; }
  void move_to(std::size_t position) noexcept { at_ = position; }
  // The current character; 0 at the end. Check is_at_end() to distinguish a NUL.
  char32_t peek() const {
    std::size_t at = at_;
    return is_at_end() ? 0 : next_character(text_, at).value_or(0);
  }
  // Requires: not at the end.
  char32_t next() { return next_character(text_, at_).value_or(0); }
  bool starts_with(std::string_view what) const noexcept {
    return text_.substr(at_).starts_with(what);
  }
  bool accept(std::string_view what) noexcept {
    const bool is_here = starts_with(what);
    at_ += is_here ? what.size() : 0;
    return is_here;
  }

  // Reads between `least` and `most` digits. nullopt if there are fewer.
  std::optional<char32_t> number(unsigned base, std::size_t least, std::size_t most);
  // Reads {m}, {m,} or {m,n} after the brace. Errors: invalid_value.
  struct bounds {
    std::uint32_t least = 0;
    std::optional<std::uint32_t> most;
  };
  result<bounds> counts();

private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// Errors: invalid_value (too long, or not UTF-8); `what` appears in the message.
result<void> check_source(std::string_view text, std::string_view what);

} // namespace baton::grammar
