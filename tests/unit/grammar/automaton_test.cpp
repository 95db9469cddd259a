// Hand-written grammars: matches, errors, and that a state is a function of the text.
#include "runtime/grammar/automata/automaton.hpp"
#include "runtime/grammar/automata/grammar_builder.hpp"
#include "tests/unit/grammar/grammar_walk.hpp"

using namespace baton;
using namespace baton::grammar;
using baton::test::matches;

namespace {

automaton built(grammar_builder& to, expression is) {
  const auto root = to.add_rule("root");
  to.define(root, is);
  auto rules = to.build(root);
  REQUIRE_MESSAGE(rules, rules.error().message);
  return automaton(*rules);
}

} // namespace

TEST_CASE("repetitions count") {
  for (const auto& [least, most] : {std::pair{0u, std::optional(0u)},
                                    {0u, std::optional(1u)},
                                    {1u, std::optional(1u)},
                                    {2u, std::optional(5u)},
                                    {3u, std::optional(3u)},
                                    {0u, std::optional<std::uint32_t>()},
                                    {1u, std::optional<std::uint32_t>()},
                                    {4u, std::optional<std::uint32_t>()}}) {
    CAPTURE(least);
    for (const char* once : {"a", "ab"}) {
      grammar_builder to;
      auto of = built(to, to.repeat(to.text(once), least, most));
      std::string text;
      for (std::uint32_t n = 0; n < 12; ++n, text += once) {
        CAPTURE(text);
        CHECK(matches(of, text) == (n >= least && (!most || n <= *most)));
      }
    }
  }
}

TEST_CASE("a nullable part may be repeated") {
  grammar_builder to;
  const auto maybe = to.either({to.empty(), to.text("a"), to.repeat(to.text("b"), 0, {})});
  auto of = built(to, to.sequence({to.repeat(maybe, 0, {}), to.repeat(maybe, 2, 3)}));
  for (const char* text : {"", "a", "b", "abba", "bbbbbbb"})
    CHECK(matches(of, text));
  CHECK_FALSE(matches(of, "abc"));
}

TEST_CASE("brackets match up to the maximum call depth") {
  grammar_builder to;
  const auto inner = to.add_rule("inner");
  to.define(inner, to.either({to.empty(), to.sequence({to.text("("), to.call(inner), to.text(")"),
                                                       to.call(inner)})}));
  auto of = built(to, to.call(inner));
  for (const std::size_t depth : {1, 10, 500})
    CHECK(matches(of, std::string(depth, '(') + std::string(depth, ')')));
  CHECK(matches(of, "()(())()"));
  CHECK_FALSE(matches(of, "(()"));
  CHECK_FALSE(matches(of, "())"));
  const auto too_deep = automaton::calls_deep_max + 10;
  CHECK_FALSE(matches(of, std::string(too_deep, '(') + std::string(too_deep, ')')));
}

TEST_CASE("a call at a rule's end uses no depth") {
  grammar_builder to;
  const auto list = to.add_rule("list");
  to.define(list, to.sequence({to.text("a"), to.either({to.empty(), to.call(list)})}));
  auto of = built(to, to.call(list));
  auto s = of.start();
  s = of.step(s, 'a');
  const auto again = of.step(s, 'a');
  CHECK(of.step(again, 'a') == again);
  CHECK(matches(of, std::string(2000, 'a')));
}

TEST_CASE("a branch that cannot finish is never begun") {
  grammar_builder to;
  const auto endless = to.add_rule("endless");
  to.define(endless, to.sequence({to.text("x"), to.call(endless)}));
  auto of = built(to, to.either({to.text("xy"), to.sequence({to.text("z"), to.nothing()}),
                                 to.sequence({to.text("w"), to.call(endless)})}));
  CHECK(of.step(of.start(), 'z') == automaton::dead);
  CHECK(of.step(of.start(), 'w') == automaton::dead);
  CHECK(of.step(of.start(), 'x') != automaton::dead);
  CHECK(matches(of, "xy"));
  CHECK(of.step(automaton::dead, 'x') == automaton::dead);
  CHECK_FALSE(of.accepts(automaton::dead));
}

TEST_CASE("a left-recursive rule is rejected by name, and so is a useless grammar") {
  const auto refusal = [](auto make) {
    grammar_builder to;
    const auto root = to.add_rule("root");
    make(to, root);
    auto rules = to.build(root);
    REQUIRE_FALSE(rules);
    return rules.error().message;
  };
  const auto direct = refusal([](grammar_builder& to, rule_id root) {
    to.define(root, to.either({to.sequence({to.call(root), to.text("x")}), to.text("y")}));
  });
  CHECK(direct.find("'root'") != std::string::npos);
  const auto hidden = refusal([](grammar_builder& to, rule_id root) {
    const auto other = to.add_rule("other"), nothing = to.add_rule("nothing");
    to.define(nothing, to.optional(to.text("n")));
    to.define(other, to.either({to.text("o"), to.sequence({to.call(nothing), to.call(root)})}));
    to.define(root, to.sequence({to.call(other), to.text("x")}));
  });
  CHECK(hidden.find("begins with itself") != std::string::npos);
  CHECK(refusal([](grammar_builder& to, rule_id root) {
          to.define(root, to.sequence({to.text("x"), to.call(root)}));
        }).find("no text matches") != std::string::npos);
  CHECK(refusal([](grammar_builder& to, rule_id root) {
          to.define(root, to.call(to.add_rule("lost")));
        }).find("'lost'") != std::string::npos);
}

TEST_CASE("limits are errors") {
  grammar_builder to;
  const auto root = to.add_rule("root");
  to.define(root, to.repeat(to.text("ab"), 70'000, {}));
  CHECK_FALSE(to.build(root));
  grammar_builder nested;
  const auto outer = nested.add_rule("outer");
  auto all = nested.sequence({nested.text("a"), nested.text("b")});
  for (int i = 0; i < 12; ++i) // 2^12 expanded copies, but each level once
    all = nested.repeat(nested.sequence({all, all}), 60'000, 60'000);
  nested.define(outer, all);
  CHECK_FALSE(nested.build(outer));
}

TEST_CASE("a text that is too ambiguous counts as one that does not match") {
  grammar_builder to;
  // a* as nests of every shape: the number of parses grows with the length.
  const auto s = to.add_rule("s");
  to.define(s, to.sequence({to.text("a"), to.optional(to.call(s)), to.optional(to.call(s)),
                            to.optional(to.text("b"))}));
  auto of = built(to, to.call(s));
  CHECK(matches(of, "aab"));
  std::string text(3000, 'a');
  CHECK_FALSE(matches(of, text)); // and the test ends quickly
  CHECK(of.bytes() < (64u << 20));
}

TEST_CASE("a text gives the same state whatever was queried before") {
  grammar_builder to;
  const auto word = to.repeat(to.byte_range('a', 'f'), 1, 4);
  auto of = built(to, to.repeat(to.sequence({word, to.text(",")}), 0, {}));
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    grammar_builder fresh_to;
    const auto fresh_word = fresh_to.repeat(fresh_to.byte_range('a', 'f'), 1, 4);
    auto fresh = built(fresh_to,
                       fresh_to.repeat(fresh_to.sequence({fresh_word, fresh_to.text(",")}), 0, {}));
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n)
      text += "abcdefg,"[random() % 8];
    CAPTURE(text);
    CHECK(matches(of, text) == matches(fresh, text));
  }
}
