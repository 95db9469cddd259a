// Goal: mixtures of experts keep the contract of the engine interface, in every tensor type.
// Method: checks the choice and the grouping of experts against plain versions. The logits of tiny
// mixtures are compared by bits between random batches, stage cuts and thread counts, and within a
// tolerance with a plain float32 forward pass.
#include "runtime/cpu/kernels/expert_choice.hpp"
#include "tests/support/reference_llama.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace baton;
using namespace baton::testing;
using model::tensor_type;

namespace {

std::vector<std::uint32_t> chosen(const std::vector<float>& scores, std::size_t used) {
  std::vector<cpu::expert_choice> choices(used);
  cpu::choose_experts(scores, choices);
  std::vector<std::uint32_t> out;
  for (const auto& choice : choices)
    out.push_back(choice.expert);
  return out;
}

// Few and many experts, one and all of them used, partial panels.
std::vector<tiny_llama> mixtures() {
  std::vector<tiny_llama> out = {
      {.ffn = 64, .experts = 8, .experts_used = 2, .type = tensor_type::f32},
      {.ffn = 32, .experts = 40, .experts_used = 5, .type = tensor_type::q4_0},
      {.hidden = 96,
       .heads = 2,
       .kv_heads = 1,
       .ffn = 32,
       .experts = 5,
       .experts_used = 1,
       .type = tensor_type::q4_1},
      {.ffn = 96, .experts = 3, .experts_used = 3, .type = tensor_type::q8_0},
  };
  for (const auto type : {tensor_type::f16, tensor_type::bf16, tensor_type::q5_0, tensor_type::q5_1,
                          tensor_type::mxfp4})
    out.push_back({.ffn = 32, .experts = 6, .experts_used = 2, .type = type});
  for (const auto type : {tensor_type::q4_k, tensor_type::q5_k, tensor_type::q6_k})
    out.push_back({.hidden = 256,
                   .heads = 1,
                   .kv_heads = 1,
                   .ffn = 256,
                   .experts = 4,
                   .experts_used = 2,
                   .type = type,
                   .embedding_type = tensor_type::q8_0});
  return out;
}

// The stages of one model, each fed with the activations of the previous one.
class stages {
public:
  stages(const tiny_file& tiny, const cpu::config& settings,
         const std::vector<model::layer_range>& ranges) {
    for (const auto& range : ranges)
      engines_.push_back(tiny.load(settings, range));
  }
  const cpu::engine_cpu& run(const micro_batch& batch) {
    std::span<const float> activations;
    for (auto& engine : engines_) {
      const auto out = engine->run(batch, activations);
      REQUIRE_MESSAGE(out, out.error().message);
      activations = out->activations;
    }
    return *engines_.back();
  }

private:
  std::vector<std::unique_ptr<cpu::engine_cpu>> engines_;
};

constexpr std::uint32_t sequence_count = 5, sequence_blocks = 2;

// Feeds all sequences in pieces of random length, in batches of random sequences.
void check_random_batches(stages& pipeline, const std::vector<std::vector<token_id>>& tokens,
                          const std::vector<logits_by_position>& alone, std::mt19937& random) {
  std::vector<std::size_t> done(tokens.size(), 0);
  std::vector<std::size_t> order(tokens.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  while (std::ranges::any_of(order, [&](std::size_t s) { return done[s] < tokens[s].size(); })) {
    std::vector<part> parts;
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random() % i]);
    for (const std::size_t s : order) {
      const std::size_t left = tokens[s].size() - done[s];
      if (left == 0 || random() % 3 == 0)
        continue;
      const std::size_t most = random() % 2 == 0 ? 1 : 40; // half of them decode
      const std::size_t count = std::min<std::size_t>(left, 1 + random() % most);
      const auto from = tokens[s].begin() + static_cast<std::ptrdiff_t>(done[s]);
      parts.push_back({s + 1,
                       {from, from + static_cast<std::ptrdiff_t>(count)},
                       static_cast<std::uint32_t>(done[s]),
                       true,
                       static_cast<std::uint32_t>(s) * sequence_blocks});
      done[s] += count;
    }
    if (parts.empty())
      continue;
    const auto& last = pipeline.run(batch_of(parts));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto s = static_cast<std::size_t>(parts[i].sequence - 1);
      const auto position = static_cast<std::uint32_t>(done[s] - 1);
      CAPTURE(s);
      CAPTURE(position);
      CHECK(first_difference(alone[s].at(position), last.logits(i)) == -1);
    }
  }
}

} // namespace

TEST_CASE("a row's experts have the highest scores; the lower index wins ties") {
  using list = std::vector<std::uint32_t>;
  CHECK(chosen({1, 4, 2, 3}, 2) == list{1, 3});
  CHECK(chosen({2, 2, 2, 2}, 3) == list{0, 1, 2});
  CHECK(chosen({1, 3, 2, 3, 2}, 3) == list{1, 3, 2});
  CHECK(chosen({-INFINITY, -INFINITY}, 1) == list{0});
  CHECK(chosen({-0.0F, 0.0F}, 2) == list{0, 1});
  CHECK(chosen({5, 6, 7}, 3) == list{2, 1, 0});
  for (const auto expert : chosen({NAN, 1, NAN, NAN}, 2))
    CHECK(expert < 4);
}

TEST_CASE("only experts of the best groups are left; the lower group wins ties") {
  using scores = std::vector<float>;
  constexpr float no = -INFINITY;
  const auto kept = [](scores values, const cpu::group_choice& choice) {
    cpu::keep_best_groups(values, choice);
    return values;
  };
  const scores given{5, 0, 3, 3, 4, 1, 2, 2};
  CHECK(kept(given, {4, 1, false}) == scores{5, 0, no, no, no, no, no, no});
  CHECK(kept(given, {4, 2, false}) == scores{5, 0, no, no, 4, 1, no, no});
  CHECK(kept(given, {4, 1, true}) == scores{no, no, 3, 3, no, no, no, no});
  CHECK(kept(given, {4, 2, true}) == scores{5, 0, 3, 3, no, no, no, no});
  CHECK(kept(given, {4, 4, true}) == given);
  CHECK(kept({-3, -9, -2, -8}, {2, 1, true}) == scores{no, no, -2, -8});
  CHECK(kept({1, 1, 1, 1}, {2, 1, false}) == scores{1, 1, no, no});
}

TEST_CASE("rows are grouped by expert in ascending order") {
  constexpr std::size_t experts = 7, used = 3, rows = 50;
  std::mt19937 random(7);
  std::vector<cpu::expert_choice> choices;
  for (std::size_t i = 0; i < rows * used; ++i) // expert 4 has no rows
    choices.push_back(
        {random() % 7 == 4 ? 6U : static_cast<std::uint32_t>(random() % 4), static_cast<float>(i)});
  std::vector<std::uint32_t> first(experts + 2);
  std::vector<cpu::expert_slot> slots(choices.size());
  cpu::group_by_expert(choices, used, first, slots);
  std::size_t slot = 0;
  for (std::uint32_t e = 0; e < experts; ++e) {
    CHECK(first[e] == slot);
    for (std::size_t i = 0; i < choices.size(); ++i)
      if (choices[i].expert == e) {
        CHECK(slots[slot].row == i / used);
        CHECK(slots[slot++].weight == choices[i].weight);
      }
  }
  CHECK(first[experts] == slot);
}

TEST_CASE("a mixture's logits have the same bits in any batch, chunk, stage and team") {
  std::mt19937 random(11);
  for (const tiny_llama& shape : mixtures()) {
    auto options = shape;
    options.layers = 3;
    const tiny_file tiny(options);
    CAPTURE(tiny.description.file_type);
    for (const std::uint32_t bits : {8U, 16U}) {
      std::vector<std::vector<token_id>> tokens;
      std::vector<logits_by_position> alone;
      const auto engine = tiny.load(settings_of(bits));
      for (std::uint32_t s = 0; s < sequence_count; ++s) {
        tokens.push_back(some_tokens(30 + random() % 60, s));
        alone.push_back(run_in_steps(*engine, tokens.back(), {1}));
      }
      const std::vector<std::vector<model::layer_range>> cuts = {
          {model::whole(tiny.description)},
          {{0, 1, true, false}, {1, 2, false, true}},
          {{0, 1, true, false}, {1, 1, false, false}, {2, 1, false, true}}};
      for (std::size_t round = 0; round < cuts.size(); ++round) {
        auto settings = settings_of(bits);
        settings.threads = static_cast<std::uint32_t>(round) + 1;
        CAPTURE(settings.threads);
        stages pipeline(tiny, settings, cuts[round]);
        check_random_batches(pipeline, tokens, alone, random);
      }
    }
  }
}

TEST_CASE("a mixture's logits have the same bits on every instruction set") {
  const auto tokens = some_tokens(90);
  for (const tiny_llama& shape : mixtures()) {
    const tiny_file tiny(shape);
    CAPTURE(tiny.description.file_type);
    for (const std::uint32_t bits : {8U, 16U}) {
      logits_by_position first;
      for (const auto which : available_isas()) {
        auto settings = settings_of(bits);
        settings.threads = 2;
        settings.forced_isa = which;
        const auto found = run_in_steps(*tiny.load(settings), tokens, {17});
        if (first.empty())
          first = found;
        CAPTURE(cpu::name_of(which));
        check_same(first, found);
      }
    }
  }
}

// With 16-bit activations: with 8 bits, near-ties of the router resolve differently.
TEST_CASE("a mixture's logits agree with a plain float32 forward pass") {
  // Per logit, in units of its standard deviation, as for dense models.
  constexpr double bound_exact = 2e-3, bound_bf16 = 0.02;
  const auto tokens = some_tokens(60);
  for (const tiny_llama& shape : mixtures()) {
    const tiny_file tiny(shape);
    CAPTURE(tiny.description.file_type);
    const auto expected = reference_logits(*tiny.file, tiny.description, tokens);
    double squares = 0, worst = 0;
    for (const float x : expected.back())
      squares += double{x} * double{x};
    const auto engine = tiny.load(settings_of(16));
    for (const auto& [position, logits] : run_in_steps(*engine, tokens, {23}))
      for (std::size_t i = 0; i < logits.size(); ++i)
        worst = std::max(worst, std::abs(double{logits[i]} - double{expected[position][i]}));
    CHECK(worst > 0);
    const double bound = shape.type == tensor_type::bf16 ? bound_bf16 : bound_exact;
    CHECK(worst / std::sqrt(squares / static_cast<double>(expected.back().size())) < bound);
  }
}
