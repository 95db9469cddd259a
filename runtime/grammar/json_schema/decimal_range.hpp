// Numbers between two bounds in JSON notation; compared digit by digit, so exact.
#pragma once

#include "runtime/grammar/automata/grammar_builder.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::grammar {

// A number without an exponent: -12.50 is {true, "12", "5"}.
struct decimal {
  bool is_negative = false;
  std::string whole = "0"; // without leading zeros
  std::string fraction;    // without trailing zeros
  bool is_zero() const noexcept { return whole == "0" && fraction.empty(); }
  friend bool operator==(const decimal&, const decimal&) = default;
};
bool is_less(const decimal& a, const decimal& b) noexcept;

// The digits that a double can distinguish.
inline constexpr std::size_t decimal_digits_max = 15;
// Parses a JSON number with its exponent. nullopt if a side of its point has more digits than that.
std::optional<decimal> decimal_of(std::string_view number);

struct decimal_bound {
  decimal at;
  bool is_excluded = false;
};
// A missing bound is limited only by the number of digits.
struct decimal_range {
  std::optional<decimal_bound> least, most;
};

expression integers_within(grammar_builder& to, const decimal_range& range);
// Up to six digits after the point, and decimal_digits_max in total.
expression decimals_within(grammar_builder& to, const decimal_range& range);

} // namespace baton::grammar
