#include "runtime/grammar/json_schema/decimal_range.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace baton::grammar {
namespace {

constexpr std::size_t fraction_digits_max = 6;

int compare_sizes(const decimal& a, const decimal& b) noexcept {
  if (a.whole.size() != b.whole.size())
    return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int order = a.whole.compare(b.whole); order != 0)
    return order;
  return a.fraction.compare(b.fraction); // no trailing zeros: the shorter one is less
}

// Digits after the point, between two bounds; flags record whether all digits so far equal one.
class fraction_writer {
public:
  fraction_writer(grammar_builder& to, std::size_t digits, const decimal_bound* least,
                  const decimal_bound* most)
      : to_(to), digits_(digits), least_(least), most_(most) {}

  // With the point, or empty.
  expression write() {
    std::vector<expression> all;
    const bool has_least = least_ != nullptr, has_most = most_ != nullptr;
    if (may_stop(0, has_least, has_most))
      all.push_back(to_.empty());
    if (digits_ > 0)
      all.push_back(to_.sequence({to_.text("."), next(0, has_least, has_most)}));
    return to_.either(std::move(all));
  }

private:
  static char digit_at(const decimal_bound& b, std::size_t at) {
    return at < b.at.fraction.size() ? b.at.fraction[at] : '0';
  }
  // Assumes trailing zeros. `at_least`, `at_most`: the digits so far equal the bound's.
  bool may_stop(std::size_t at, bool at_least, bool at_most) const {
    const bool reaches_least =
        !at_least || (at >= least_->at.fraction.size() && !least_->is_excluded);
    const bool reaches_most = !at_most || at < most_->at.fraction.size() || !most_->is_excluded;
    return reaches_least && reaches_most;
  }
  // One more digit with its continuations.
  expression next(std::size_t at, bool at_least, bool at_most) {
    const auto key = at * 4 + (at_least ? 2u : 0u) + (at_most ? 1u : 0u);
    if (const auto it = known_.find(key); it != known_.end())
      return it->second;
    std::vector<expression> all;
    const char first = at_least ? digit_at(*least_, at) : '0';
    const char last = at_most ? digit_at(*most_, at) : '9';
    for (char d = first; d <= last; ++d) {
      const bool stays_least = at_least && d == first, stays_most = at_most && d == last;
      std::vector<expression> following;
      if (may_stop(at + 1, stays_least, stays_most))
        following.push_back(to_.empty());
      if (at + 1 < digits_)
        following.push_back(next(at + 1, stays_least, stays_most));
      all.push_back(to_.sequence({to_.text({&d, 1}), to_.either(std::move(following))}));
    }
    return known_[key] = to_.shared("digits", to_.either(std::move(all)));
  }

  grammar_builder& to_;
  std::size_t digits_;
  const decimal_bound* least_;
  const decimal_bound* most_;
  std::map<std::size_t, expression> known_;
};

// Whole numbers of the same length as both bounds.
expression of_one_length(grammar_builder& to, std::string_view least, std::string_view most) {
  const auto digit = [&](char first, char last) {
    return to.byte_range(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last));
  };
  if (least.empty())
    return to.empty();
  const auto rest = static_cast<std::uint32_t>(least.size() - 1);
  if (least[0] == most[0])
    return to.sequence(
        {to.text(least.substr(0, 1)), of_one_length(to, least.substr(1), most.substr(1))});
  const std::string nines(rest, '9'), zeros(rest, '0');
  std::vector<expression> all{
      to.sequence({to.text(least.substr(0, 1)), of_one_length(to, least.substr(1), nines)}),
      to.sequence({to.text(most.substr(0, 1)), of_one_length(to, zeros, most.substr(1))})};
  if (least[0] + 1 < most[0])
    all.push_back(
        to.sequence({digit(static_cast<char>(least[0] + 1), static_cast<char>(most[0] - 1)),
                     to.repeat(digit('0', '9'), rest, rest)}));
  return to.either(std::move(all));
}

std::uint64_t number_of(const std::string& digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

expression wholes_between(grammar_builder& to, std::uint64_t least, std::uint64_t most) {
  std::vector<expression> all;
  for (std::uint64_t begin = 0, end = 9; begin <= most; begin = end + 1, end = end * 10 + 9)
    if (least <= end)
      all.push_back(of_one_length(to, std::to_string(std::max(begin, least)),
                                  std::to_string(std::min(end, most))));
  return to.either(std::move(all));
}

// Non-negative numbers between two bounds. Requires: least <= most.
expression not_negative(grammar_builder& to, const decimal_bound& least, const decimal_bound& most,
                        bool has_fraction) {
  const auto digits =
      has_fraction ? std::min(fraction_digits_max, decimal_digits_max - most.at.whole.size()) : 0;
  const auto fraction = [&](const decimal_bound* from, const decimal_bound* until) {
    return fraction_writer(to, digits, from, until).write();
  };
  const auto first = number_of(least.at.whole), last = number_of(most.at.whole);
  if (first == last)
    return to.sequence({to.text(least.at.whole), fraction(&least, &most)});
  std::vector<expression> all{to.sequence({to.text(least.at.whole), fraction(&least, nullptr)}),
                              to.sequence({to.text(most.at.whole), fraction(nullptr, &most)})};
  if (first + 1 < last)
    all.push_back(
        to.sequence({wholes_between(to, first + 1, last - 1), fraction(nullptr, nullptr)}));
  return to.either(std::move(all));
}

expression within(grammar_builder& to, const decimal_range& range, bool has_fraction) {
  // Without a bound on one side, numbers are no longer than the other bound needs.
  std::size_t whole = 9;
  for (const auto* b : {&range.least, &range.most})
    if (*b)
      whole = std::max(whole, (*b)->at.whole.size());
  const decimal far{false, std::string(whole, '9'), ""};
  const decimal_bound zero{}, above_zero{{}, true};
  const auto least = range.least.value_or(decimal_bound{{true, far.whole, ""}, false});
  const auto most = range.most.value_or(decimal_bound{far, false});
  const auto size_of = [](decimal_bound b) {
    b.at.is_negative = false;
    return b;
  };
  std::vector<expression> all;
  if (is_less(most.at, least.at))
    return to.nothing();
  if (least.at.is_negative) {
    const auto until = most.at.is_negative ? size_of(most) : above_zero;
    all.push_back(
        to.sequence({to.text("-"), not_negative(to, until, size_of(least), has_fraction)}));
  }
  if (!most.at.is_negative)
    all.push_back(not_negative(to, least.at.is_negative ? zero : least, most, has_fraction));
  return to.either(std::move(all));
}

} // namespace

bool is_less(const decimal& a, const decimal& b) noexcept {
  if (a.is_negative != b.is_negative)
    return a.is_negative;
  const int order = compare_sizes(a, b);
  return a.is_negative ? order > 0 : order < 0;
}

std::optional<decimal> decimal_of(std::string_view number) {
  decimal out;
  out.is_negative = number.starts_with('-');
  number.remove_prefix(out.is_negative ? 1 : 0);
  const auto mark = std::min(number.find_first_of("eE"), number.size());
  const auto point = std::min(number.find('.'), mark);
  std::string digits(number.substr(0, point));
  if (point < mark)
    digits += number.substr(point + 1, mark - point - 1);
  long exponent = 0;
  if (mark < number.size()) {
    auto text = number.substr(mark + 1);
    text.remove_prefix(text.starts_with('+') ? 1 : 0);
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (code != std::errc{} || std::abs(exponent) > 100)
      return std::nullopt;
  }
  if (digits.size() > 100)
    return std::nullopt;
  const auto after_point = static_cast<long>(point) + exponent;
  if (after_point <= 0)
    digits.insert(0, static_cast<std::size_t>(1 - after_point), '0');
  const auto whole = static_cast<std::size_t>(std::max(after_point, 1L));
  digits.resize(std::max(digits.size(), whole), '0');
  out.whole = digits.substr(0, whole);
  out.fraction = digits.substr(whole);
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  while (out.fraction.ends_with('0'))
    out.fraction.pop_back();
  out.is_negative = out.is_negative && !out.is_zero();
  if (out.whole.size() > decimal_digits_max || out.fraction.size() > fraction_digits_max ||
      out.whole.size() + out.fraction.size() > decimal_digits_max)
    return std::nullopt;
  return out;
}

expression integers_within(grammar_builder& to, const decimal_range& range) {
  return within(to, range, /*has_fraction=*/false);
}

expression decimals_within(grammar_builder& to, const decimal_range& range) {
  return within(to, range, /*has_fraction=*/true);
}

} // namespace baton::grammar
