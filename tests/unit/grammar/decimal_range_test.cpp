// Ranges of numbers against comparisons.
#include "runtime/grammar/automata/automaton.hpp"
#include "runtime/grammar/json_schema/decimal_range.hpp"
#include "tests/unit/grammar/grammar_walk.hpp"

#include <cstdlib>

using namespace baton;
using namespace baton::grammar;
using baton::test::matches;

namespace {

automaton within(const decimal_range& range, bool is_integer) {
  grammar_builder to;
  const auto root = to.add_rule("root");
  to.define(root, is_integer ? integers_within(to, range) : decimals_within(to, range));
  auto rules = to.build(root);
  REQUIRE_MESSAGE(rules, rules.error().message);
  return automaton(*rules);
}

std::optional<decimal_bound> bound(std::string_view number, bool is_excluded = false) {
  return decimal_bound{decimal_of(number).value(), is_excluded};
}

} // namespace

TEST_CASE("number texts become decimals, or are too long") {
  CHECK(decimal_of("12.50") == decimal{false, "12", "5"});
  CHECK(decimal_of("-0.0") == decimal{false, "0", ""});
  CHECK(decimal_of("1e3") == decimal{false, "1000", ""});
  CHECK(decimal_of("-12.5e-2") == decimal{true, "0", "125"});
  CHECK(decimal_of("0.00012e4") == decimal{false, "1", "2"});
  CHECK_FALSE(decimal_of("1e99"));
  CHECK_FALSE(decimal_of("0.1234567"));
  CHECK_FALSE(decimal_of("1e999999999999999999999"));
  CHECK(is_less(*decimal_of("-2"), *decimal_of("-1.5")));
  CHECK(is_less(*decimal_of("9"), *decimal_of("10")));
  CHECK_FALSE(is_less(*decimal_of("0.5"), *decimal_of("0.45")));
}

TEST_CASE("integers of a range are exactly those within it") {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const int a = static_cast<int>(random() % 3000) - 1500,
              b = a + static_cast<int>(random() % 900);
    const bool excludes_a = random() % 3 == 0, excludes_b = random() % 3 == 0;
    if (b - a < 2)
      continue;
    CAPTURE(a);
    CAPTURE(b);
    auto of = within({bound(std::to_string(a), excludes_a), bound(std::to_string(b), excludes_b)},
                     /*is_integer=*/true);
    int wrong = 0;
    for (int i = -2500; i <= 2500; ++i) {
      const bool is_in = (excludes_a ? i > a : i >= a) && (excludes_b ? i < b : i <= b);
      wrong += matches(of, std::to_string(i)) == is_in ? 0 : 1;
    }
    CHECK(wrong == 0);
    for (const char* other : {"", "-", "00", "-0", "+1", "1.0", "1e1", "01"})
      CHECK_FALSE(matches(of, other));
  }
}

TEST_CASE("decimals of a range are exactly those within it") {
  std::mt19937 random(2);
  const auto text_of = [](int thousandths) {
    return fmt::format("{}{}.{:03}", thousandths < 0 ? "-" : "", std::abs(thousandths) / 1000,
                       std::abs(thousandths) % 1000);
  };
  for (int round = 0; round < 40; ++round) {
    const int a = static_cast<int>(random() % 8000) - 4000;
    const int b = a + 1 + static_cast<int>(random() % 5000);
    const bool excludes_a = random() % 2 == 0, excludes_b = random() % 2 == 0;
    CAPTURE(text_of(a));
    CAPTURE(text_of(b));
    auto of = within({bound(text_of(a), excludes_a), bound(text_of(b), excludes_b)},
                     /*is_integer=*/false);
    int wrong = 0;
    for (int i = -9000; i <= 9000; i += i % 1000 == 0 ? 1 : 7) {
      const bool is_in = (excludes_a ? i > a : i >= a) && (excludes_b ? i < b : i <= b);
      if (i > -1000 && i <= 0 && text_of(i).starts_with("-0"))
        continue;
      wrong += matches(of, text_of(i)) == is_in ? 0 : 1;
      if (i % 1000 == 0)
        wrong += matches(of, std::to_string(i / 1000)) == is_in ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("an unbounded side is limited by the number of digits") {
  auto above = within({bound("0", true), std::nullopt}, /*is_integer=*/false);
  CHECK(matches(above, "0.000001"));
  CHECK(matches(above, "999999998.999999"));
  CHECK_FALSE(matches(above, "0"));
  CHECK_FALSE(matches(above, "0.0"));
  CHECK_FALSE(matches(above, "-1"));
  auto below = within({std::nullopt, bound("-2.5")}, /*is_integer=*/true);
  CHECK(matches(below, "-3"));
  CHECK(matches(below, "-999999999"));
  CHECK_FALSE(matches(below, "-2"));
  CHECK_FALSE(matches(below, "0"));
}
