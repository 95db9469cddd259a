// The last stage's masks are a function of constraint and ids, whatever was queried or evicted
// before.
#include "runtime/grammar/masker.hpp"
#include "tests/unit/grammar/grammar_walk.hpp"
#include "tests/unit/grammar/vocabularies.hpp"

using namespace baton;
using namespace baton::grammar;
using test::has;

namespace {

const constraint object{constraint_kind::json_schema,
                        R"({"type":"object","properties":{"a":{"type":"string"},
                            "b":{"type":"array","items":{"type":"integer"}}},"required":["a"]})"};
const constraint words{constraint_kind::regex, "([a-f]+ ){1,4}"};

sequence_id sequence_of(std::uint32_t choice) {
  return {{7}, choice};
}

token_bits bits_of(masker& m, const shared_constraint& c, sequence_id s,
                   const std::vector<token_id>& ids) {
  token_bits bits;
  const auto ok = m.find(c, s, ids, bits);
  REQUIRE_MESSAGE(ok, ok.error().message);
  return bits;
}

bool is_end_alone(const token_bits& bits, const answer_texts& texts) {
  std::size_t count = 0;
  for (const auto word : bits)
    count += static_cast<std::size_t>(std::popcount(word));
  return count == texts.end_ids.size() &&
         has(bits, static_cast<std::size_t>(texts.end_ids.front()));
}

} // namespace

TEST_CASE("cached, evicted or reordered queries change no mask") {
  const auto texts = test::small_texts();
  masker kept(texts);
  masker forgetful(texts, {.grammars = 1, .sequences = 1, .grammar_bytes = 2000});
  const shared_constraint constraints[] = {object, words, constraint{}};
  struct answer {
    std::uint32_t of;
    std::vector<token_id> ids;
  };
  std::vector<answer> open;
  for (std::uint32_t i = 0; i < 9; ++i)
    open.push_back({i % 3, {}});
  std::mt19937 random(11);
  for (int step = 0; step < 400; ++step) {
    const auto at = random() % open.size();
    auto& [of, ids] = open[at];
    const auto s = sequence_of(static_cast<std::uint32_t>(at));
    const auto bits = bits_of(kept, constraints[of], s, ids);
    CHECK(bits == bits_of(forgetful, constraints[of], s, ids));
    masker fresh(texts);
    // Another cache, another sequence: the same constraint and ids.
    CHECK(bits ==
          bits_of(fresh, shared_constraint(constraint(*constraints[of])), sequence_of(99), ids));
    std::vector<token_id> may_come;
    for (std::size_t id = 0; id < texts.all.size(); ++id)
      if (has(bits, id))
        may_come.push_back(static_cast<token_id>(id));
    REQUIRE_FALSE(may_come.empty());
    const auto id = may_come[random() % may_come.size()];
    if (id == texts.end_ids.front() || ids.size() > 40)
      ids.clear();
    else if (random() % 5 == 0) // rejected draft tokens
      ids.resize(random() % (ids.size() + 1));
    else
      ids.push_back(id);
  }
}

TEST_CASE("after an end, or ids that do not match, only an end token is allowed") {
  const auto texts = test::small_texts();
  masker m(texts);
  const shared_constraint c = words;
  const auto a = static_cast<token_id>('a');
  const auto space = static_cast<token_id>(' ');
  CHECK_FALSE(has(bits_of(m, c, sequence_of(0), {a}), static_cast<std::size_t>(texts.end_ids[0])));
  CHECK(has(bits_of(m, c, sequence_of(0), {a, space}), static_cast<std::size_t>(texts.end_ids[0])));
  CHECK(is_end_alone(bits_of(m, c, sequence_of(0), {a, space, texts.end_ids[0]}), texts));
  CHECK(is_end_alone(bits_of(m, c, sequence_of(0), {a, space, texts.end_ids[0], a}), texts));
  CHECK(is_end_alone(bits_of(m, c, sequence_of(0), {space}), texts));
  CHECK(is_end_alone(bits_of(m, c, sequence_of(0), {-1}), texts));
  CHECK(is_end_alone(bits_of(m, c, sequence_of(0), {1'000'000}), texts));
  // Nothing may follow a fourth word.
  CHECK(
      is_end_alone(bits_of(m, c, sequence_of(0), {a, space, a, space, a, space, a, space}), texts));
}

TEST_CASE("the first token of a separate text loses its space") {
  auto texts = test::small_texts();
  texts.first = texts.all;
  const auto the = static_cast<std::size_t>(std::find(texts.all.begin(), texts.all.end(), " the") -
                                            texts.all.begin());
  texts.first[the] = "the";
  masker m(texts);
  constraint c{constraint_kind::choice, R"(["the the"])"};
  const auto id = static_cast<token_id>(the);
  CHECK(has(bits_of(m, shared_constraint(c), sequence_of(0), {}), the));
  CHECK(has(bits_of(m, shared_constraint(c), sequence_of(0), {id}), the));
  CHECK(is_end_alone(bits_of(m, shared_constraint(c), sequence_of(0), {id, id}), texts));
  c.continues_prompt = true;
  CHECK_FALSE(has(bits_of(m, shared_constraint(c), sequence_of(1), {}), the));
}

TEST_CASE("a constraint applies behind the reasoning") {
  for (const bool is_inside : {false, true}) {
    constraint c{constraint_kind::choice, R"(["yes"])"};
    c.reasoning = reasoning_format::think;
    c.begins_in_reasoning = is_inside;
    CHECK(test::matches(c, is_inside ? "a <thi\n</think>\n\nyes" : "<think>a\n</think>\n\nyes"));
    CHECK(test::matches(c, "yes") == !is_inside);
    CHECK_FALSE(test::matches(c, is_inside ? "a</think>no" : "<think>a</think>no"));
    CHECK_FALSE(test::matches(c, is_inside ? "a yes" : "<think>a yes"));
  }
  constraint free{constraint_kind::free, {}};
  CHECK(test::matches(free, "any \xc3\xa9 text"));
}

TEST_CASE("with channels a format applies to the message behind the reasoning") {
  constraint c{constraint_kind::choice, R"(["yes"])"};
  c.reasoning = reasoning_format::harmony;
  const std::string answer = "<|channel|>final<|message|>yes";
  const std::string thought = "<|channel|>analysis<|message|>a<|end|><|start|>assistant";
  CHECK(test::matches(c, answer));
  CHECK(test::matches(c, thought + answer));
  CHECK_FALSE(test::matches(c, "yes"));
  CHECK_FALSE(test::matches(c, thought + "yes"));
  // Control tokens, but only whole.
  CHECK(test::matches(c, "\xFF<|channel|>final\xFF<|message|>yes"));
  CHECK_FALSE(test::matches(c, "\xFF<|channel|>final<\xFF|message|>yes"));
  c.begins_in_reasoning = true;
  CHECK(test::matches(c, "a\xFF<|end|>\xFF<|start|>assistant" + answer));
  CHECK_FALSE(test::matches(c, answer));
  constraint calls{constraint_kind::calls,
                   R"({"format":"harmony","calls_max":4,"has_text":true,"tools":[{"name":"g"}]})"};
  calls.reasoning = reasoning_format::harmony;
  const std::string call = "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}";
  CHECK(test::matches(calls, call));
  CHECK(test::matches(calls, thought + call));
  CHECK(test::matches(calls, thought + "<|channel|>final<|message|>Any text."));
  CHECK_FALSE(test::matches(calls, call + call));
  CHECK_FALSE(test::matches(calls, "Any text."));
}

TEST_CASE("reasoning that several tokens open ends in time") {
  answer_texts texts;
  texts.all = {"a", "\xFF<|channel|>", "analysis", "\xFF<|message|>", "\xFF<|end|>", "final", ""};
  texts.end_ids = {6};
  constraint c{constraint_kind::free, {}};
  c.reasoning = reasoning_format::harmony;
  c.reasoning_tokens_max = 2;
  masker m(texts);
  const shared_constraint of(c);
  const auto close = token_bits{std::uint64_t{1} << 4};
  CHECK(bits_of(m, of, sequence_of(0), {1, 2, 3, 0}) != close);
  CHECK(bits_of(m, of, sequence_of(0), {1, 2, 3, 0, 0}) == close);
  CHECK(bits_of(m, of, sequence_of(0), {1, 2, 3, 0, 0, 4, 0}) != close);
  CHECK(bits_of(m, of, sequence_of(1), {1, 5, 3, 0, 0, 0}) != close); // the answer
}

TEST_CASE("reasoning ends when it has as many tokens as it may have") {
  answer_texts texts;
  texts.all = {"a", "b", "<think>", "</think>", "y", ""};
  texts.end_ids = {5};
  const token_id a = 0, open = 2, close = 3, y = 4;
  const auto only = [](const token_bits& bits, token_id id) {
    return bits == token_bits{std::uint64_t{1} << id};
  };
  constraint c{constraint_kind::choice, R"(["y"])"};
  c.reasoning = reasoning_format::think;
  c.begins_in_reasoning = true;
  c.reasoning_tokens_max = 2;
  masker m(texts);
  const shared_constraint inside(c);
  CHECK(has(bits_of(m, inside, sequence_of(0), {a}), 1));
  CHECK(only(bits_of(m, inside, sequence_of(0), {a, a}), close));
  CHECK(only(bits_of(m, inside, sequence_of(0), {a, a, close}), y)); // then the choice
  CHECK(has(bits_of(m, inside, sequence_of(0), {a, close, y}), 5));
  c.begins_in_reasoning = false;
  const shared_constraint may(c);
  CHECK(only(bits_of(m, may, sequence_of(1), {open, a, a}), close));
  CHECK(has(bits_of(m, may, sequence_of(1), {open, a}), 1));
  CHECK(has(bits_of(m, may, sequence_of(2), {y}), 5)); // it did not think
  c.reasoning_tokens_max = 0;
  c.begins_in_reasoning = true;
  CHECK(only(bits_of(m, shared_constraint(c), sequence_of(3), {}), close));
  texts.all[3] = "c";
  masker without(texts);
  token_bits bits;
  const auto none = without.find(shared_constraint(c), sequence_of(0), {}, bits);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::unsupported_parameter);
  CHECK(none.error().param == "thinking_token_budget");
}

TEST_CASE("a vocabulary without required tokens, and an invalid constraint, are errors") {
  answer_texts texts;
  texts.all = {"a", "b", ""};
  texts.end_ids = {2};
  masker m(texts);
  token_bits bits;
  const shared_constraint c = constraint{constraint_kind::choice, R"(["ac"])"};
  CHECK(m.find(c, sequence_of(0), {}, bits));
  const std::vector<token_id> a{0};
  const auto stuck = m.find(c, sequence_of(0), a, bits);
  REQUIRE_FALSE(stuck);
  CHECK(stuck.error().code == errc::unprocessable);
  CHECK_FALSE(m.find(constraint{constraint_kind::regex, "("}, sequence_of(0), {}, bits));
}

TEST_CASE("a mask over the memory limit is an error, whatever is cached") {
  masker m(test::small_texts(), {.step_bytes = 100});
  token_bits bits;
  for (int i = 0; i < 2; ++i) {
    const auto found = m.find(object, sequence_of(0), {}, bits);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == errc::unprocessable);
  }
}

TEST_CASE("the vocabulary is read at the first mask, and retried until that succeeds") {
  int reads = 0;
  masker m([&reads]() -> result<answer_texts> {
    if (++reads == 1)
      return fail(errc::io_failed, "not yet");
    return test::small_texts();
  });
  token_bits bits;
  CHECK(reads == 0);
  const auto early = m.find(words, sequence_of(0), {}, bits);
  REQUIRE_FALSE(early);
  CHECK(early.error().code == errc::io_failed);
  for (int i = 0; i < 3; ++i)
    CHECK(m.find(words, sequence_of(0), {}, bits));
  CHECK(reads == 2);
}
