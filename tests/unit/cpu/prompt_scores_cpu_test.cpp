// Goal: the CPU engine's prompt scores have the bits of draws behind each token, for every cut of
// the prompt. Method: every row drawn in one step, beside the scores.
#include "runtime/engine/prompt_scores.hpp"
#include "tests/unit/cpu/embeddings.hpp"
#include "tests/unit/cpu/tensor_group.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;
using model::tensor_type;

namespace {

constexpr std::uint32_t top = 3;

const tiny_llama scored_shape{.hidden = 288,
                              .heads = 9,
                              .kv_heads = 3,
                              .ffn = 96,
                              .type = tensor_type::q4_1,
                              .embedding_type = tensor_type::q8_0,
                              .has_tied_embeddings = true};

template <class Engine>
std::vector<sample> drawn_scores(Engine& engine, const std::vector<token_id>& tokens) {
  const auto logits = run_at_once(engine, tokens);
  baton::engine::sampler_scratch scratch;
  std::vector<sample> all;
  for (std::uint32_t i = 0; i + 1 < tokens.size(); ++i)
    all.push_back(*baton::engine::score_token(logits.at(i), tokens[i + 1], top, scratch));
  return all;
}

// A chunk of the tokens, with the tokens that follow it.
micro_batch scoring_batch(const std::vector<token_id>& tokens, std::size_t at, std::size_t count,
                          std::vector<part> company) {
  company.push_back({.sequence = 99,
                     .tokens = part_of(tokens, at, count),
                     .position = static_cast<std::uint32_t>(at),
                     .samples = false});
  auto batch = batch_of(company);
  batch.pools = {{static_cast<std::uint32_t>(company.size() - 1),
                  pooling::scores,
                  false,
                  {},
                  tokens[at + count],
                  top}};
  return batch;
}

template <class Engine>
std::vector<sample> scores_in(Engine& engine, const std::vector<token_id>& tokens,
                              const std::vector<std::size_t>& sizes,
                              const std::vector<part>& company = {}) {
  std::vector<sample> all;
  for (std::size_t at = 0, i = 0; at + 1 < tokens.size(); ++i) {
    const auto count = std::min(sizes[std::min(i, sizes.size() - 1)], tokens.size() - 1 - at);
    auto step = engine.run(scoring_batch(tokens, at, count, company), {});
    REQUIRE_MESSAGE(step, step.error().message);
    REQUIRE(step->pooled.size() == 1);
    REQUIRE(step->samples.size() == company.size());
    all.insert(all.end(), step->pooled[0].scores.begin(), step->pooled[0].scores.end());
    at += count;
  }
  return all;
}

} // namespace

TEST_CASE("scores have the bits of draws for any chunks, batch, threads and instruction set") {
  const auto tokens = some_tokens(100);
  const tiny_file tiny(scored_shape);
  const auto expected = drawn_scores(*tiny.load(settings_of(16)), tokens);
  for (const auto which : available_isas())
    for (const std::uint32_t threads : {1U, 3U}) {
      auto settings = settings_of(16);
      settings.threads = threads;
      settings.forced_isa = which;
      const auto engine = tiny.load(settings);
      const std::vector<part> company = {{.sequence = 1, .tokens = {7}, .blocks_from = 8},
                                         {.sequence = 2, .tokens = {9, 4, 2}, .blocks_from = 9}};
      for (const auto& sizes : std::vector<std::vector<std::size_t>>{{1}, {7, 60, 40}, {99}}) {
        CHECK(scores_in(*engine, tokens, sizes) == expected);
        CHECK(scores_in(*engine, tokens, sizes, company) == expected);
      }
    }
}

TEST_CASE("a row that decodes beside a scored prompt keeps its own bits") {
  const tiny_file tiny(scored_shape);
  const auto engine = tiny.load(settings_of(16));
  const part decoding{.sequence = 1, .tokens = {7}, .blocks_from = 8};
  REQUIRE(engine->run(batch_of({decoding}), {}));
  const std::vector<float> alone(engine->logits(0).begin(), engine->logits(0).end());
  scores_in(*engine, some_tokens(60), {59}, {decoding});
  CHECK(first_difference(alone, engine->logits(0)) == -1);
}

TEST_CASE("two stages give the scores of one, and the first stage returns none") {
  const auto tokens = some_tokens(40);
  const tiny_file tiny(tiny_llama{.type = tensor_type::f32});
  const auto expected = drawn_scores(*tiny.load(settings_of()), tokens);
  const auto first = tiny.load(settings_of(), model::layer_range{0, 1, true, false});
  const auto second = tiny.load(settings_of(), model::layer_range{1, 1, false, true});
  const auto batch = scoring_batch(tokens, 0, 39, {});
  const auto rows = first->run(batch, {});
  REQUIRE_MESSAGE(rows, rows.error().message);
  CHECK(rows->pooled.empty());
  const auto out = second->run(batch, rows->activations);
  REQUIRE_MESSAGE(out, out.error().message);
  REQUIRE(out->pooled.size() == 1);
  CHECK(out->pooled[0].scores == expected);
}

TEST_CASE("rank 0 of a group scores with the bits of its own draws") {
  const auto tokens = some_tokens(70);
  const tiny_file tiny(scored_shape);
  tensor_group group(*tiny.file, tiny.description, settings_of(16), 2);
  const auto expected = drawn_scores(group, tokens);
  CHECK(scores_in(group, tokens, {69}) == expected);
  CHECK(scores_in(group, tokens, {33, 20}) == expected);
}
