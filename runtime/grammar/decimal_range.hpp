// Numbers between two bounds, as they are written in JSON: digit by digit, so exactly.
#pragma once

#include "runtime/grammar/grammar_builder.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::grammar {

// A number without an exponent: -12.50 is {true, "12", "5"}.
struct decimal {
  bool is_negative = false;
  std::string whole = "0"; // no zeros in front
  std::string fraction;    // none behind
  bool is_zero() const noexcept { return whole == "0" && fraction.empty(); }
  friend bool operator==(const decimal&, const decimal&) = default;
};
bool is_less(const decimal& a, const decimal& b) noexcept;

// As many digits as a double tells apart.
inline constexpr std::size_t decimal_digits_max = 15;
// Of a JSON number, exponent and all. Nothing: it has more digits than that on a side of its point.
std::optional<decimal> decimal_of(std::string_view number);

struct decimal_bound {
  decimal at;
  bool is_excluded = false;
};
// Nothing: without that bound, but for the digits that fit.
struct decimal_range {
  std::optional<decimal_bound> least, most;
};

expression integers_within(grammar_builder& to, const decimal_range& range);
// Up to six digits behind the point, and decimal_digits_max in all.
expression decimals_within(grammar_builder& to, const decimal_range& range);

} // namespace baton::grammar
