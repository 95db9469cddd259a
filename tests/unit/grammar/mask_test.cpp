// Masks against the slow way: every token of the vocabulary, byte by byte, in the states of a
// random answer.
#include "runtime/grammar/automata/control_text.hpp"
#include "tests/unit/grammar/grammar_walk.hpp"
#include "tests/unit/grammar/vocabularies.hpp"

using namespace baton;
using namespace baton::grammar;
using test::has;

namespace {

const constraint constraints[] = {
    {constraint_kind::json_object, ""},
    {constraint_kind::json_schema,
     R"({"type":"object","properties":{"name":{"type":"string","maxLength":9},
         "tags":{"type":"array","items":{"type":"string"}},"n":{"type":"number","minimum":-2}},
         "required":["name","n"],"additionalProperties":{"type":"string","pattern":"^[a-z ]+$"}})"},
    {constraint_kind::regex, "[a-z]+( [a-z]+){2,5}\\.|\\d{3}-\\d+"},
    {constraint_kind::regex, "(.|\\n){0,20}"},
    {constraint_kind::choice, R"(["abc", "abd", "name: x", "é"])"},
    {constraint_kind::grammar, "root ::= \"{\" root \"}\" | [^{}]{3}"},
    {constraint_kind::grammar,
     "start: sum\nsum: INT | sum \"+\" INT\n%import common.INT\n%ignore \" \""},
    {constraint_kind::tags,
     R"({"triggers":["<a"],"structures":[{"begin":"<a>","schema":{"type":"integer"},"end":"</a>"}]})"},
};

constexpr mask_budget enough{64u << 20, 100'000'000};

void compare(const mask_maker& maker, const constraint& c, int tokens, std::uint32_t seed) {
  CAPTURE(c.text);
  auto of = test::automaton_of(c);
  std::mt19937 random(seed);
  auto s = of.start();
  token_bits bits;
  for (int i = 0; i < tokens; ++i) {
    const auto mask = maker.make(of, s, /*begins_text=*/i == 0, enough);
    REQUIRE(mask);
    maker.fill(*mask, bits);
    CHECK(test::wrong_bits(of, s, maker.texts(), i == 0, bits) == 0);
    std::vector<std::size_t> may_come;
    for (std::size_t id = 0; id < maker.size(); ++id)
      if (has(bits, id))
        may_come.push_back(id);
    CHECK(may_come.empty() == mask->is_empty);
    REQUIRE_FALSE(may_come.empty());
    const auto id = may_come[random() % may_come.size()];
    const auto& all =
        i == 0 && !maker.texts().first.empty() ? maker.texts().first : maker.texts().all;
    if (all[id].empty()) // an end token
      break;
    for (const char byte : all[id])
      s = of.step(s, static_cast<std::uint8_t>(byte));
  }
}

} // namespace

TEST_CASE("masks of a small vocabulary match its bytes") {
  const mask_maker maker(test::small_texts());
  for (const auto& c : constraints)
    for (std::uint32_t seed = 0; seed < 20; ++seed)
      compare(maker, c, 30, seed);
}

TEST_CASE("masks of a vocabulary whose first tokens lose a space") {
  auto texts = test::small_texts();
  texts.first = texts.all;
  for (auto& text : texts.first)
    if (text.starts_with(' '))
      text.erase(0, 1);
  const mask_maker maker(std::move(texts));
  for (const auto& c : constraints)
    for (std::uint32_t seed = 0; seed < 5; ++seed)
      compare(maker, c, 4, seed);
}

TEST_CASE("masks of the default model's vocabulary match its bytes") {
  auto texts = test::model_texts();
  if (!texts)
    return;
  CHECK(texts->all.size() == 49152);
  CHECK(texts->first.empty());
  for (const auto id : texts->end_ids)
    CHECK(texts->all[static_cast<std::size_t>(id)].empty());
  CHECK(texts->all[0].empty()); // <|endoftext|>
  CHECK(texts->all[1] == "\xFF<|im_start|>");
  const auto is_stray = [](const std::string& text) {
    return text.find(control_byte) != std::string::npos && text.size() == 1;
  };
  CHECK(std::none_of(texts->all.begin(), texts->all.end(), is_stray));
  const mask_maker maker(*std::move(texts));
  for (const auto& c : constraints)
    for (std::uint32_t seed = 0; seed < 3; ++seed)
      compare(maker, c, 12, seed);
}

TEST_CASE("a control token is allowed where a grammar names it, and nowhere else") {
  answer_texts texts;
  texts.all = {"<", "<|call|>", control_text("<|call|>"), control_text("[ARGS]"), "a", ""};
  texts.end_ids = {5};
  const mask_maker maker(texts);
  const auto allowed = [&](grammar_builder& to, expression what) {
    const auto root = to.add_rule("root");
    to.define(root, what);
    automaton of(to.build(root).value());
    token_bits bits;
    maker.fill(maker.make(of, of.start(), false, {.bytes = 64u << 20, .work = 1'000'000}).value(),
               bits);
    return bits.front();
  };
  grammar_builder named, free;
  const std::string_view controls[] = {"<|call|>", ""};
  CHECK(allowed(named, text_with_controls(named, "<|call|>a", controls)) == 0b000111);
  CHECK(allowed(free, free.repeat(free.characters(character_set::all()), 0, std::nullopt)) ==
        0b110011);
}

TEST_CASE("a walk that exceeds its memory or time is aborted") {
  const mask_maker maker(test::small_texts());
  auto of = test::automaton_of(constraints[1]);
  CHECK_FALSE(maker.make(of, of.start(), false, {.bytes = 1, .work = 1'000'000}));
  auto again = test::automaton_of(constraints[1]);
  CHECK_FALSE(maker.make(again, again.start(), false, {.bytes = 64u << 20, .work = 1}));
}
