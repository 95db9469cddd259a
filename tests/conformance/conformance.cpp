#include "tests/conformance/conformance.hpp"

#include "runtime/engine/sampler.hpp"
#include "tests/conformance/pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

namespace baton::conformance {
namespace {

// Distributions differ by their tokens; otherwise the checks below would detect nothing.
void check_sees(const subject& s, const distribution& one, const distribution& other) {
  double most = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    most = std::max(most, std::abs(double{one[i]} - double{other[i]}));
  CHECK(most > 4 * double{s.tolerance} + 1e-4);
}

} // namespace

void checks_limits(const subject& s) {
  const auto all = s.make({1}, nullptr);
  REQUIRE(all.size() == 2);
  for (const auto& stage : all) {
    const auto& l = stage->limits();
    CHECK(l.blocks >= 12);
    CHECK(l.block_positions > 0);
    CHECK(l.max_model_len >= 3 * l.block_positions);
    CHECK(l.rows_max >= 3 * l.block_positions);
    CHECK(l.hidden_size > 0);
    CHECK(l.vocabulary_size > 1);
    CHECK(!l.device.empty());
    const auto& first = all.front()->limits();
    CHECK(l.model_hash == first.model_hash);
    CHECK(l.blocks == first.blocks);
    CHECK(l.block_positions == first.block_positions);
    CHECK(l.hidden_size == first.hidden_size);
    CHECK(l.vocabulary_size == first.vocabulary_size);
  }
}

void refuses_bad_batches(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto tokens = some_tokens(l, length_of(l));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(3, 3);
  p.step({{&tokens, 0, length - 1, blocks}});
  const auto good = p.batch_of({{&tokens, length - 1, 1, blocks}});
  const auto refused = [&](const char* what, const std::function<void(micro_batch&)>& change) {
    auto bad = good;
    change(bad);
    const auto out = p.run(bad);
    CAPTURE(what);
    REQUIRE(!out);
    CHECK(out.error().code == errc::invalid_value);
  };
  refused("no slices", [](auto& b) { b.slices.clear(); });
  refused("a block beyond the last", [&](auto& b) { b.slices[0].blocks[1] = l.blocks; });
  refused("a block twice", [](auto& b) { b.slices[0].blocks[1] = b.slices[0].blocks[0]; });
  refused("a block too few", [](auto& b) { b.slices[0].blocks.pop_back(); });
  refused("a block too many", [](auto& b) { b.slices[0].blocks.push_back(9); });
  refused("a token beyond the vocabulary",
          [&](auto& b) { b.tokens[0] = static_cast<token_id>(l.vocabulary_size); });
  refused("a token that is still to come", [](auto& b) { b.tokens[0] = placeholder_token; });
  refused("a row too many", [](auto& b) { b.tokens.push_back(0); });
  refused("no draw", [](auto& b) { b.draws.clear(); });
  refused("a context too long", [&](auto& b) {
    b.slices[0].position = l.max_model_len;
    b.slices[0].blocks = consecutive(0, l.max_model_len / l.block_positions + 1);
  });
  refused("a temperature below 0", [](auto& b) { b.draws[0].sampling.temperature = -1; });
  refused("a copy of no block", [&](auto& b) { b.copies.push_back({l.blocks, 0, true}); });
  refused("a copy into no swap space", [&](auto& b) {
    b.copies.push_back({0, l.swap_blocks, true});
  });
  const auto activations = std::vector<float>(l.hidden_size, 0.0F);
  const auto alone = s.make({}, nullptr);
  const auto out = alone.front()->run(good, activations);
  REQUIRE(!out); // stage 0 gets no input rows
  CHECK(out.error().code == errc::invalid_value);
  // None of them has changed anything.
  pipeline fresh(s);
  check_near(s, fresh.last_of(tokens, blocks, {length - 1, 1}),
             p.step({{&tokens, length - 1, 1, blocks}}).front());
}

void chunks_do_not_show(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto tokens = some_tokens(l, length_of(l));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(0, 3);
  const auto whole = p.last_of(tokens, blocks, {length});
  for (const std::vector<std::uint32_t>& sizes : {std::vector<std::uint32_t>{1},
                                                  {3},
                                                  {l.block_positions},
                                                  {l.block_positions - 1, 2},
                                                  {length - 1, 1},
                                                  {l.block_positions + 1, 1, 5}})
    check_near(s, whole, p.last_of(tokens, blocks, sizes));
  auto other = tokens;
  std::swap(other[0], other[1]);
  check_sees(s, whole, p.last_of(other, blocks, {length}));
}

void company_does_not_show(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto own = some_tokens(l, length_of(l)), other = some_tokens(l, length_of(l), 1),
             third = some_tokens(l, length_of(l), 2);
  const auto length = static_cast<std::uint32_t>(own.size());
  const auto half = length / 2;
  const auto alone = p.last_of(own, consecutive(0, 3), {half, 1, length});
  // Before it, after it, on both sides, in the middle of another's prompt.
  const piece rest{&other, 0, half, consecutive(4, 3), true, 0, 2};
  const piece guest{&third, 0, length, consecutive(8, 3), true, 0, 3};
  pipeline fresh(s);
  fresh.step({rest, {&own, 0, half, consecutive(0, 3)}});
  fresh.step({{&own, half, 1, consecutive(0, 3)}, guest});
  const auto found = fresh.step({guest,
                                 {&own, half + 1, length - half - 1, consecutive(0, 3)},
                                 {&other, half, 1, consecutive(4, 3), true, 0, 2}});
  REQUIRE(found.size() == 3);
  check_near(s, alone, found[1]);
  check_sees(s, alone, found[0]);
  pipeline again(s);
  check_near(s, again.last_of(third, consecutive(8, 3), {length}), found[0]);
  check_near(s,
             again.last_of({other.begin(), other.begin() + half + 1}, consecutive(4, 3), {half, 1}),
             found[2]);
}

void stages_do_not_show(const subject& s) {
  pipeline whole(s);
  const auto tokens = some_tokens(whole.limits(), length_of(whole.limits()));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto expected = whole.last_of(tokens, consecutive(0, 3), {length - 3, 1});
  std::vector<std::uint32_t> all(s.layers - 1);
  std::iota(all.begin(), all.end(), 1U);
  std::vector<std::vector<std::uint32_t>> cuts;
  for (const auto each : all)
    cuts.push_back({each});
  cuts.push_back(all);
  for (const auto& cut : cuts) {
    pipeline p(s, cut);
    check_near(s, expected, p.last_of(tokens, consecutive(0, 3), {length - 3, 1}));
  }
}

void blocks_are_as_named(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto tokens = some_tokens(l, length_of(l));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto expected = p.last_of(tokens, consecutive(0, 3), {length});
  for (const auto& blocks : {std::vector<block_index>{l.blocks - 1, 0, 5}, {7, 2, 9}})
    check_near(s, expected, p.last_of(tokens, blocks, {length - 2, 1}));
  // A common prefix: two sequences read the first block, each continues in its own.
  auto other = tokens;
  for (auto i = l.block_positions; i < length; ++i)
    other[i] = tokens[length - 1 - (i - l.block_positions)];
  const std::vector<block_index> own{4, 5, 6}, branch{4, 8, 10};
  pipeline shared(s);
  shared.step({{&tokens, 0, l.block_positions, own}});
  const auto rows = length - l.block_positions;
  const auto both = shared.step({{&tokens, l.block_positions, rows, own},
                                 {&other, l.block_positions, rows, branch, true, 0, 2}});
  check_near(s, expected, both[0]);
  pipeline alone(s);
  check_near(s, alone.last_of(other, consecutive(0, 3), {length}), both[1]);
}

void copies_bring_back(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  if (l.swap_blocks < 2)
    return;
  const auto tokens = some_tokens(l, length_of(l)), other = some_tokens(l, length_of(l), 1);
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto expected = p.last_of(tokens, consecutive(0, 3), {length - 1, 1});
  for (const std::vector<std::uint32_t>& cuts : {std::vector<std::uint32_t>{}, {1}}) {
    pipeline q(s, cuts);
    q.step({{&tokens, 0, length - 1, {1, 2, 3}}});
    // Swap out; another sequence overwrites the blocks in the same step.
    q.step({{&other, 0, length, {2, 1, 4}, true, 0, 2}}, {{1, 1, true}, {2, 0, true}});
    // Swap in, crosswise, into blocks that were in use.
    const auto found =
        q.step({{&tokens, length - 1, 1, {2, 1, 3}}}, {{2, 1, false}, {1, 0, false}});
    check_near(s, expected, found.front());
  }
}

void redone_steps_are_the_same(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto tokens = some_tokens(l, length_of(l)), other = some_tokens(l, length_of(l), 3);
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(0, 3);
  const auto fresh = p.last_of(tokens, blocks, {length - 4, 4});
  check_near(s, fresh, p.step({{&tokens, length - 4, 4, blocks}}).front()); // again
  p.last_of(other, {2, 1, 0}, {length});                                    // garbage from here on
  check_near(s, fresh, p.last_of(tokens, blocks, {length - 4, 4}));
  check_near(s, fresh, p.last_of(tokens, blocks, {length - 2, 2}));
  // A step that is repeated from further back, as after a crash.
  if (l.state_slots > 0)
    p.step({{&tokens, 0, l.block_positions - 1, blocks}});
  p.step({{&tokens, l.block_positions - 1, 2, blocks}});
  check_near(
      s, fresh,
      p.step({{&tokens, l.block_positions + 1, length - l.block_positions - 1, blocks}}).front());
}

// A state cannot return to before a draft token, so a model with states gets none.
void drafts_are_rows(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  if (l.state_slots > 0)
    return;
  const auto tokens = some_tokens(l, length_of(l));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(0, 3);
  constexpr std::uint32_t rows = 4;
  p.step({{&tokens, 0, length - rows, blocks}});
  const auto together = p.step({{&tokens, length - rows, rows, blocks, true, rows - 1}});
  REQUIRE(together.size() == rows);
  pipeline q(s);
  q.step({{&tokens, 0, length - rows, blocks}});
  for (std::uint32_t i = 0; i < rows; ++i)
    check_near(s, q.step({{&tokens, length - rows + i, 1, blocks}}).front(), together[i]);
}

void draws_by_the_contract(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto tokens = some_tokens(l, length_of(l));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(0, 3);
  const auto logprobs = p.last_of(tokens, blocks, {length - 1, 1});
  std::vector<draw> draws;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    draw d;
    d.token_index = seed * 7;
    d.sampling.seed = seed;
    d.sampling.temperature = 0.5F + 0.25F * static_cast<float>(seed % 4);
    d.sampling.top_k = seed % 3 == 0 ? 5 : 0;
    d.sampling.min_p = seed % 5 == 0 ? 0.01F : 0;
    if (seed % 2 == 0) { // repetition_penalty tests the sign of a logit; these do not
      d.sampling.presence_penalty = 0.5F;
      d.sampling.frequency_penalty = 0.25F;
      d.history = {{tokens[0], 1, 0}, {tokens[1], 0, 2}};
    }
    if (seed % 4 == 0)
      d.banned = {tokens[2]};
    if (seed % 8 == 3)
      d.sampling.typical_p = 0.6F;
    if (seed % 8 == 5) {
      d.sampling.watermark_gamma = 0.5F;
      d.sampling.watermark_delta = 2;
      d.previous = tokens[4];
    }
    if (seed % 6 == 0)
      d.sampling.biases = {{tokens[3], 3.0F}};
    draws.push_back(d);
  }
  engine::sampler_scratch scratch;
  std::size_t same = 0, seen = 0;
  for (const auto& d : draws) {
    auto batch = p.batch_of({{&tokens, length - 1, 1, blocks}});
    batch.draws[0] = d;
    const auto found = p.run(batch);
    REQUIRE_MESSAGE(found, found.error().message);
    auto copy = logprobs;
    const auto expected = engine::draw_token(copy, d, scratch);
    REQUIRE_MESSAGE(expected, expected.error().message);
    ++seen;
    same += found->front().token == expected->token ? 1 : 0;
    for (const token_id id : d.banned)
      CHECK(found->front().token != id);
    // The same draw, the same token.
    const auto again = p.run(batch);
    REQUIRE(again);
    CHECK(again->front().token == found->front().token);
  }
  // If the rounding of a log-probability decides, another token may come.
  CHECK(same + 1 >= seen);
}

// A vocabulary of two letters: even ids are "a", odd ones "b", and the last is the end.
void constraints_are_kept(const subject& s) {
  const pipeline plain(s);
  const auto& l = plain.limits();
  grammar::answer_texts texts;
  for (std::uint32_t id = 0; id < l.vocabulary_size; ++id)
    texts.all.emplace_back(id % 2 == 0 ? "a" : "b");
  const auto end = static_cast<token_id>(l.vocabulary_size - 1);
  texts.all.back().clear();
  texts.end_ids = {end};
  const shared_constraint alternating = constraint{constraint_kind::regex, "(ab){2}"};
  pipeline p(s, {}, std::make_shared<grammar::masker>(texts));
  const auto tokens = some_tokens(l, length_of(l));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(0, 3);
  p.last_of(tokens, blocks, {length - 1, 1});
  // Two sequences in each step, one of them free.
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    std::vector<token_id> output;
    for (std::uint32_t index = 0; index < 5; ++index) {
      auto batch = p.batch_of({{&tokens, length - 1, 1, blocks},
                               {.tokens = &tokens, .count = 1, .blocks = {3}, .ticket = 2}});
      auto& d = batch.draws[0];
      d.sampling = {};
      d.sampling.temperature = 4;
      d.sampling.seed = seed;
      d.token_index = index;
      d.sampling.constraint = alternating;
      d.output = output;
      // Other sequences' options do not replace those of this one.
      batch.draws[1].sampling = {};
      const auto found = p.run(batch);
      REQUIRE_MESSAGE(found, found.error().message);
      const auto drawn = found->front().token;
      const bool is_over = index == 4;
      CHECK((drawn == end) == is_over);
      if (!is_over)
        CHECK(drawn % 2 == static_cast<token_id>(index % 2));
      output.push_back(drawn);
    }
  }
  auto batch = p.batch_of({{&tokens, length - 1, 1, blocks}});
  batch.draws[0].sampling.constraint = alternating;
  pipeline without(s);
  without.last_of(tokens, blocks, {length - 1, 1});
  const auto refused = without.run(batch);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported_parameter);
}

// Engines may refuse pooling. If the limits promise exactness, a row's result is the same for any
// chunks and neighbours.
void pools_rows(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto tokens = some_tokens(l, length_of(l)), other = some_tokens(l, length_of(l), 1);
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(0, 3);
  if (!l.pools) {
    auto batch = p.batch_of({{&tokens, 0, length, blocks, /*samples=*/false}});
    batch.pools = {{0, pooling::mean, true, {}}};
    const auto refused = p.run(batch);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::unsupported_parameter);
    return;
  }
  const piece guest{&other, 0, length, consecutive(4, 3)};
  for (const auto how : {pooling::mean, pooling::last, pooling::cls}) {
    CAPTURE(static_cast<int>(how));
    const auto whole = p.embedding_of(tokens, blocks, how, {length});
    REQUIRE(whole.size() == l.hidden_size);
    double squares = 0;
    for (const float x : whole)
      squares += double{x} * double{x};
    CHECK(std::abs(squares - 1) < 1e-4);
    for (const std::vector<std::uint32_t>& sizes :
         {std::vector<std::uint32_t>{1}, {l.block_positions - 1, 2}, {length - 1, 1}})
      check_near(s, whole, p.embedding_of(tokens, blocks, how, sizes));
    check_near(s, whole, p.embedding_of(tokens, blocks, how, {length / 2}, {guest}));
    pipeline cut(s, {1});
    check_near(s, whole, cut.embedding_of(tokens, blocks, how, {length / 2}));
    const auto another = p.embedding_of(other, blocks, how, {length});
    CHECK(another != whole);
  }
}

// Rows with an owner stay unchanged while it is held; beyond its capacity an engine returns rows
// without an owner.
void keeps_rows(const subject& s) {
  const auto all = s.make({1}, nullptr);
  pipeline p(s);
  const auto tokens = some_tokens(p.limits(), length_of(p.limits()));
  const auto length = static_cast<std::uint32_t>(tokens.size());
  struct kept {
    std::shared_ptr<const void> owner;
    std::span<const float> rows;
    std::vector<float> as_they_were;
  };
  std::vector<kept> held;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto count = 1 + i * 7 % length;
    const auto out = all[0]->run(p.batch_of({{&tokens, 0, count, consecutive(0, 3)}}), {});
    REQUIRE_MESSAGE(out, out.error().message);
    const std::vector<float> now(out->activations.begin(), out->activations.end());
    if (out->owner)
      held.push_back({out->owner, out->activations, now});
    if (i % 5 == 4 && !held.empty())
      held.erase(held.begin());
    for (const auto& k : held)
      REQUIRE(std::equal(k.rows.begin(), k.rows.end(), k.as_they_were.begin(),
                         [](float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }));
  }
}

// The log-probability of each prompt token after those before it: the one that a draw there would
// report.
void scores_prompts(const subject& s) {
  pipeline p(s);
  const auto& l = p.limits();
  const auto tokens = some_tokens(l, length_of(l)), other = some_tokens(l, length_of(l), 1);
  const auto length = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = consecutive(0, 3);
  if (!l.scores) {
    auto batch = p.batch_of({{&tokens, 0, length - 1, blocks, /*samples=*/false}});
    batch.pools = {{0, pooling::scores, false, {}, tokens.back(), 0}};
    const auto refused = p.run(batch);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::unsupported_parameter);
    return;
  }
  std::vector<float> drawn;
  for (std::uint32_t i = 0; i + 1 < length; ++i)
    drawn.push_back(
        p.step({{&tokens, i, 1, blocks}}).front().at(static_cast<std::size_t>(tokens[i + 1])));
  for (const std::vector<std::uint32_t>& sizes :
       {std::vector<std::uint32_t>{1}, {l.block_positions - 1, 2}, {length}})
    check_near(s, drawn, p.scores_of(tokens, blocks, sizes));
  const piece drawing{&other, 0, length, consecutive(4, 3)};
  check_near(s, drawn, p.scores_of(tokens, blocks, {length / 2}, {drawing}));
  pipeline cut(s, {1});
  check_near(s, drawn, cut.scores_of(tokens, blocks, {length / 2}));
}

void reports_overflow(const subject& s) {
  if (!s.has_real_activations)
    return;
  const auto all = s.make({1}, nullptr);
  pipeline p(s);
  const auto tokens = some_tokens(p.limits(), 1);
  const auto batch = p.batch_of({{&tokens, 0, 1, {0}}});
  std::vector<float> activations(p.limits().hidden_size, 0.5F);
  CHECK(all[1]->run(batch, activations));
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    activations[1] = bad;
    const auto out = all[1]->run(batch, activations);
    REQUIRE(!out);
    CHECK(out.error().code == errc::internal);
  }
  activations[1] = 0.5F;
  CHECK(all[1]->run(batch, activations));
}

void check_engine(const subject& s) {
  CAPTURE(s.name);
  checks_limits(s);
  refuses_bad_batches(s);
  chunks_do_not_show(s);
  company_does_not_show(s);
  stages_do_not_show(s);
  blocks_are_as_named(s);
  copies_bring_back(s);
  redone_steps_are_the_same(s);
  drafts_are_rows(s);
  draws_by_the_contract(s);
  constraints_are_kept(s);
  pools_rows(s);
  states_are_in_slots(s);
  keeps_rows(s);
  scores_prompts(s);
  begun_steps_do_not_show(s);
  fed_steps_do_not_show(s);
  reports_overflow(s);
}

} // namespace baton::conformance
