// The toy engine must be a reliable oracle: valid batches give the oracle's tokens for every cut,
// invalid ones give other tokens or an error.
#include "runtime/engine/toy_engine.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>

using namespace baton;
using namespace baton::engine;

namespace {

const std::vector<token_id> prompt_ids{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

struct pipeline {
  explicit pipeline(const toy_model& m) : model(m) {
    for (stage_index s = 0; s < m.layers; ++s)
      stages.push_back(
          std::make_unique<toy_engine>(m, s, toy_memory{.state_slots = m.has_states ? 6U : 0U}));
  }
  result<std::vector<sample>> run(const micro_batch& b) {
    std::vector<float> activations;
    for (auto& stage : stages) {
      auto out = stage->run(b, activations);
      if (!out)
        return out.error();
      if (&stage == &stages.back())
        return std::move(out->samples);
      activations.assign(out->activations.begin(), out->activations.end());
    }
    return std::vector<sample>{};
  }
  toy_model model;
  std::vector<std::unique_ptr<toy_engine>> stages;
};

// Rows [from, to) of `ids` in the given blocks; samples if they reach the end.
micro_batch chunk_of(const std::vector<token_id>& ids, std::size_t from, std::size_t to,
                     std::vector<block_index> blocks, std::uint32_t token_index = 0) {
  micro_batch b;
  b.batch = {1};
  blocks.resize((to + 3) / 4);
  b.slices.push_back({{{1}, 0},
                      static_cast<std::uint32_t>(from),
                      static_cast<std::uint32_t>(to - from),
                      to == ids.size(),
                      blocks});
  b.tokens.assign(ids.begin() + static_cast<std::ptrdiff_t>(from),
                  ids.begin() + static_cast<std::ptrdiff_t>(to));
  if (to == ids.size())
    b.draws.resize(1), b.draws[0].token_index = token_index;
  return b;
}

} // namespace

TEST_CASE("tokens agree with the oracle for any number of stages and any chunk borders") {
  for (const stage_index stages : {1u, 2u, 3u})
    for (const std::size_t chunk : {1u, 3u, 4u, 10u}) {
      CAPTURE(stages);
      CAPTURE(chunk);
      pipeline p({.seed = 7, .layers = stages, .vocabulary_size = 100});
      const std::vector<block_index> blocks{9, 2, 7, 4, 0};
      auto ids = prompt_ids;
      std::size_t done = 0;
      for (std::uint32_t index = 0; index < 8; ++index) {
        std::vector<sample> drawn;
        while (done < ids.size()) {
          const std::size_t to = std::min(done + chunk, ids.size());
          auto out = p.run(chunk_of(ids, done, to, blocks, index));
          REQUIRE_MESSAGE(out.has_value(), out.error().message);
          drawn = *out;
          done = to;
        }
        REQUIRE(drawn.size() == 1);
        ids.push_back(drawn[0].token);
      }
      CHECK(std::vector<token_id>(ids.begin() + 10, ids.end()) ==
            toy_continuation(p.model, prompt_ids, {}, 8));
    }
}

TEST_CASE("stages, seeds and prompts give different continuations") {
  const toy_model model{.seed = 7, .layers = 2, .vocabulary_size = 300};
  const auto right = toy_continuation(model, prompt_ids, {}, 12);
  CHECK(right.size() == 12);
  CHECK(right !=
        toy_continuation({.seed = 8, .layers = 2, .vocabulary_size = 300}, prompt_ids, {}, 12));
  CHECK(right !=
        toy_continuation({.seed = 7, .layers = 3, .vocabulary_size = 300}, prompt_ids, {}, 12));
  sampling_params other;
  other.seed = 1;
  CHECK(right != toy_continuation(model, prompt_ids, other, 12));
  auto changed = prompt_ids;
  std::swap(changed[0], changed[1]);
  CHECK(right != toy_continuation(model, changed, {}, 12));
}

TEST_CASE("a wrong block table or stale block shows, a repeated step does not") {
  const toy_model model{.seed = 7, .layers = 2, .vocabulary_size = 300};
  const std::vector<block_index> blocks{9, 2, 7};
  const std::vector<token_id> other{8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
  const auto right = toy_continuation(model, prompt_ids, {}, 1);
  pipeline p(model);
  REQUIRE(p.run(chunk_of(prompt_ids, 0, 6, blocks)).has_value());

  SUBCASE("swapped blocks change the token") {
    REQUIRE(p.run(chunk_of(other, 0, 8, {2, 9})).has_value());
    auto out = p.run(chunk_of(prompt_ids, 6, 10, blocks));
    REQUIRE(out.has_value());
    CHECK((*out)[0].token != right[0]);
  }
  SUBCASE("a skipped position is reported if it was never written") {
    auto out = p.run(chunk_of(prompt_ids, 8, 10, blocks));
    REQUIRE_FALSE(out.has_value());
    CHECK(out.error().code == errc::internal);
  }
  SUBCASE("a fresh engine has nothing written") {
    pipeline fresh(model);
    CHECK_FALSE(fresh.run(chunk_of(prompt_ids, 6, 10, blocks)).has_value());
  }
  SUBCASE("repeating a step, whole or in part, changes nothing") {
    REQUIRE(p.run(chunk_of(prompt_ids, 0, 6, blocks)).has_value());
    REQUIRE(p.run(chunk_of(prompt_ids, 4, 10, blocks)).has_value());
    auto out = p.run(chunk_of(prompt_ids, 6, 10, blocks));
    REQUIRE(out.has_value());
    CHECK((*out)[0].token == right[0]);
  }
  SUBCASE("the token does not depend on other sequences") {
    auto both = chunk_of(prompt_ids, 6, 10, blocks);
    const auto guest = chunk_of(other, 0, 10, {1, 3, 5});
    both.slices.insert(both.slices.begin(), guest.slices[0]);
    both.slices[0].sequence = {{2}, 0};
    both.tokens.insert(both.tokens.begin(), guest.tokens.begin(), guest.tokens.end());
    both.draws.push_back({});
    auto out = p.run(both);
    REQUIRE(out.has_value());
    REQUIRE(out->size() == 2);
    CHECK((*out)[1].token == right[0]);
    CHECK((*out)[0].token == toy_continuation(model, other, {}, 1)[0]);
  }
}

TEST_CASE("the toy engine rejects what validate rejects") {
  toy_engine e({}, 0, {});
  auto b = chunk_of(prompt_ids, 0, 10, {0, 1, 2});
  b.slices[0].blocks[1] = 16;
  auto out = e.run(b, {});
  REQUIRE_FALSE(out.has_value());
  CHECK(out.error().code == errc::invalid_value);
}

TEST_CASE("the oracle respects penalties and banned tokens") {
  const toy_model model{.seed = 3, .layers = 1, .vocabulary_size = 8};
  sampling_params s;
  s.temperature = 0;
  s.presence_penalty = 1000;
  auto tokens = toy_continuation(model, std::vector<token_id>{1, 2}, s, 8);
  std::sort(tokens.begin(), tokens.end());
  CHECK(tokens == std::vector<token_id>{0, 1, 2, 3, 4, 5, 6, 7}); // no repetition
  const std::vector<token_id> banned{0, 1, 2, 3, 4, 5, 6};
  tokens = toy_continuation(model, std::vector<token_id>{1, 2}, {}, 30, banned, 5);
  CHECK(std::count(tokens.begin(), tokens.begin() + 5, 7) == 5);
  CHECK(std::count(tokens.begin(), tokens.end(), 7) < 30);
}

namespace {

const toy_model stateful{.seed = 7, .layers = 2, .vocabulary_size = 300, .has_states = true};

// Rows [from, to) from one slot to another.
micro_batch hop(const std::vector<token_id>& ids, std::size_t from, std::size_t to,
                std::uint32_t state_from, std::uint32_t state_to) {
  auto b = chunk_of(ids, from, to, {9, 2, 7});
  b.slices[0].state_from = state_from;
  b.slices[0].state_to = state_to;
  return b;
}

} // namespace

TEST_CASE("recurrent states change the tokens, as the oracle's do") {
  auto plain = stateful;
  plain.has_states = false;
  const auto right = toy_continuation(stateful, prompt_ids, {}, 3);
  CHECK(right != toy_continuation(plain, prompt_ids, {}, 3));
  CHECK(toy_scores(stateful, prompt_ids, 0) != toy_scores(plain, prompt_ids, 0));
  CHECK(toy_embedding(stateful, prompt_ids, pooling::mean) !=
        toy_embedding(plain, prompt_ids, pooling::mean));
  pipeline p(stateful);
  REQUIRE(p.run(hop(prompt_ids, 0, 6, 0, 4)));
  for (const std::uint32_t to : {1U, 6U}) {
    const auto out = p.run(hop(prompt_ids, 6, 10, 4, to));
    REQUIRE_MESSAGE(out, out.error().message);
    CHECK((*out)[0].token == right[0]);
  }
}

TEST_CASE("a slot with another position's state, another sequence's, or none shows") {
  pipeline p(stateful);
  REQUIRE(p.run(hop(prompt_ids, 0, 6, 0, 4)));
  for (const std::uint32_t wrong : {1U, 5U}) {
    if (wrong == 5)
      REQUIRE(p.run(hop(prompt_ids, 0, 5, 0, 5)));
    const auto out = p.run(hop(prompt_ids, 6, 10, wrong, 2));
    REQUIRE_FALSE(out);
    CHECK(out.error().code == errc::internal);
  }
  REQUIRE(p.run(hop({8, 8, 8, 8, 8, 8, 8}, 0, 6, 0, 3)));
  REQUIRE(p.run(hop(prompt_ids, 0, 6, 0, 1))); // the blocks are as they were
  const auto out = p.run(hop(prompt_ids, 6, 10, 3, 2));
  REQUIRE(out);
  CHECK((*out)[0].token != toy_continuation(stateful, prompt_ids, {}, 1)[0]);
}

TEST_CASE("layers that move take their states along") {
  std::vector<std::shared_ptr<toy_engine>> from;
  for (const stage_index layer : {0U, 1U})
    from.push_back(std::make_shared<toy_engine>(stateful, layer, toy_memory{.state_slots = 6}));
  const auto first = hop(prompt_ids, 0, 6, 0, 4);
  const auto rows = from[0]->run(first, {});
  REQUIRE(rows);
  const std::vector<float> between(rows->activations.begin(), rows->activations.end());
  REQUIRE(from[1]->run(first, between));
  const auto rest = hop(prompt_ids, 6, 10, 4, 2);
  const auto is_right = [&](std::vector<std::uint32_t> states) {
    toy_engine whole(stateful, 0, toy_memory{.state_slots = 6}, 2);
    REQUIRE(whole.take_over(from, std::vector<block_index>{9, 2, 7}, states));
    const auto out = whole.run(rest, {});
    return out && out->samples[0].token == toy_continuation(stateful, prompt_ids, {}, 1)[0];
  };
  CHECK(is_right({4}));
  CHECK_FALSE(is_right({}));
  toy_engine whole(stateful, 0, toy_memory{.state_slots = 6}, 2);
  for (const std::uint32_t beyond : {0U, 7U})
    CHECK_FALSE(whole.take_over(from, std::vector<block_index>{9}, std::vector{beyond}));
}
