// Goal: recurrent layers follow their definition, and their states keep the contract of the engine
// interface. Method: kernels against double arithmetic and against each other; the families' tiny
// files with steps that are redone, shared and continued in another engine.
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/cpu/sequences.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

using namespace baton;
using namespace baton::testing;

namespace {

struct scan_case {
  std::size_t rows = 5, key_size = 32, stride = 96;
  std::vector<float> query = random_floats(rows * stride, 1), key = random_floats(rows * stride, 2);
  std::vector<float> value = random_floats(rows * stride, 3);
  std::vector<float> decay{1.0F, 0.9F, 0.5F, 0.01F, 0.99F}, strength{0.5F, 1.0F, 0.0F, 0.3F, 0.9F};
  std::vector<float> before = random_floats(key_size * cpu::scan_columns, 4);

  cpu::scan_args args(const float* from, float* to, float* out) const {
    return {.query = query.data(),
            .key = key.data(),
            .value = value.data(),
            .stride = stride,
            .decay = decay.data(),
            .strength = strength.data(),
            .weight_stride = 1,
            .rows = rows,
            .key_size = key_size,
            .from = from,
            .to = to,
            .out = out,
            .out_stride = cpu::scan_columns};
  }
};

struct recurrent_model : family_golden {
  explicit recurrent_model(const std::string& name = "qwen35") : family_golden(name) {}

  std::unique_ptr<cpu::engine_cpu> load(std::optional<int> kv_file = {},
                                        std::optional<model::layer_range> range = {}) const {
    cpu::config c;
    c.kv_blocks = 16;
    c.rows_max = 256;
    c.state_slots = 8;
    c.kv_file = kv_file;
    auto engine =
        cpu::engine_cpu::load(*file, description, range.value_or(model::whole(description)), c);
    REQUIRE_MESSAGE(engine, engine.error().message);
    return *std::move(engine);
  }
};

// Rows [from, to) of the prompt, from one slot to another.
std::vector<float> run_rows(cpu::engine_cpu& engine, const std::vector<token_id>& tokens,
                            std::size_t from, std::size_t to, std::uint32_t state_from,
                            std::uint32_t state_to, std::uint64_t sequence = 1,
                            std::uint32_t blocks_from = 0) {
  auto batch = batch_of({{.sequence = sequence,
                          .tokens = piece(tokens, from, to),
                          .position = static_cast<std::uint32_t>(from),
                          .blocks_from = blocks_from}});
  batch.slices[0].state_from = state_from;
  batch.slices[0].state_to = state_to;
  const auto out = engine.run(batch, {});
  REQUIRE_MESSAGE(out, out.error().message);
  const auto logits = engine.logits(0);
  return {logits.begin(), logits.end()};
}

} // namespace

TEST_CASE("a scan applies the gated delta rule, to the same bits everywhere") {
  const scan_case c;
  constexpr std::size_t columns = cpu::scan_columns;
  for (const bool has_state : {false, true}) {
    CAPTURE(has_state);
    std::vector<double> state(c.key_size * columns);
    if (has_state)
      state.assign(c.before.begin(), c.before.end());
    std::vector<float> to(state.size()), out(c.rows * columns);
    cpu::kernels_for(cpu::isa::portable)
        .scan(c.args(has_state ? c.before.data() : nullptr, to.data(), out.data()));
    for (std::size_t r = 0; r < c.rows; ++r)
      for (std::size_t j = 0; j < columns; ++j) {
        double held = 0, answer = 0;
        for (std::size_t i = 0; i < c.key_size; ++i) {
          state[i * columns + j] *= double{c.decay[r]};
          held += double{c.key[r * c.stride + i]} * state[i * columns + j];
        }
        const double change = double{c.strength[r]} * (double{c.value[r * c.stride + j]} - held);
        for (std::size_t i = 0; i < c.key_size; ++i) {
          state[i * columns + j] += double{c.key[r * c.stride + i]} * change;
          answer += double{c.query[r * c.stride + i]} * state[i * columns + j];
        }
        CHECK(double{out[r * columns + j]} == doctest::Approx(answer).epsilon(1e-4).scale(1));
      }
    for (std::size_t i = 0; i < state.size(); ++i)
      CHECK(double{to[i]} == doctest::Approx(state[i]).epsilon(1e-4).scale(1));
    for (const auto which : available_isas()) {
      std::vector<float> same_to(to.size()), same_out(out.size());
      cpu::kernels_for(which).scan(
          c.args(has_state ? c.before.data() : nullptr, same_to.data(), same_out.data()));
      CHECK(first_difference(to, same_to) == -1);
      CHECK(first_difference(out, same_out) == -1);
    }
  }
}

TEST_CASE("a convolution reads the rows before its own, and zeros where there are none") {
  constexpr std::size_t channels = 48;
  const auto x = random_floats(4 * channels, 5, 3.0F), weights = random_floats(4 * channels, 6);
  for (const std::size_t absent : {0U, 1U, 3U}) {
    CAPTURE(absent);
    const float* rows[4];
    for (std::size_t i = 0; i < 4; ++i)
      rows[i] = i < absent ? nullptr : x.data() + i * channels;
    std::vector<float> expected(channels), found(channels);
    const auto convolve = [&](cpu::isa which, std::vector<float>& out) {
      cpu::kernels_for(which).convolve({.rows = rows,
                                        .count = 4,
                                        .weights = weights.data(),
                                        .channels = channels,
                                        .out = out.data()});
    };
    convolve(cpu::isa::portable, expected);
    for (std::size_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::size_t i = absent; i < 4; ++i)
        sum += double{weights[i * channels + c]} * double{x[i * channels + c]};
      CHECK(double{expected[c]} == doctest::Approx(sum / (1 + std::exp(-sum))).epsilon(1e-5));
    }
    for (const auto which : available_isas()) {
      convolve(which, found);
      CHECK(first_difference(expected, found) == -1);
    }
  }
}

TEST_CASE("a step changes the slot that it writes alone, so it can be redone") {
  for (const auto& name : recurrent_family_names) {
    CAPTURE(name);
    const recurrent_model golden(name);
    const auto engine = golden.load();
    run_rows(*engine, golden.prompt, 0, 70, 0, 1);
    const auto first = run_rows(*engine, golden.prompt, 70, 90, 1, 2);
    const auto redone = run_rows(*engine, golden.prompt, 70, 90, 1, 3);
    CHECK(first_difference(first, redone) == -1);
    const auto next = run_rows(*engine, golden.prompt, 90, 100, 2, 4);
    CHECK(first_difference(next, run_rows(*engine, golden.prompt, 90, 100, 3, 5)) == -1);
    // Begins anew in a slot that has held another state.
    run_rows(*engine, golden.prompt, 0, 70, 0, 4);
    CHECK(first_difference(first, run_rows(*engine, golden.prompt, 70, 90, 4, 5)) == -1);
    // A state of other rows gives other logits.
    run_rows(*engine, golden.prompt, 0, 69, 0, 6);
    CHECK(first_difference(first, run_rows(*engine, golden.prompt, 70, 90, 6, 7)) != -1);
  }
}

TEST_CASE("two sequences continue from one state") {
  const recurrent_model golden;
  const auto engine = golden.load();
  run_rows(*engine, golden.prompt, 0, 64, 0, 1);
  const auto one = run_rows(*engine, golden.prompt, 64, 100, 1, 2);
  auto batch = batch_of({{.sequence = 1, .tokens = piece(golden.prompt, 64, 100), .position = 64},
                         {.sequence = 2, .tokens = {3, 5}, .position = 64}});
  batch.slices[1].blocks = {0, 9};
  batch.slices[0].state_from = batch.slices[1].state_from = 1;
  batch.slices[0].state_to = 3;
  batch.slices[1].state_to = 4;
  REQUIRE(engine->run(batch, {}));
  CHECK(first_difference(one, engine->logits(0)) == -1);
  CHECK(first_difference(one, engine->logits(1)) != -1);
}

TEST_CASE("states outlive their engine in the memory that it shares") {
  const recurrent_model golden;
  const int fd = memfd_create("kv", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  const auto whole = golden.load();
  run_rows(*whole, golden.prompt, 0, 100, 0, 1);
  const auto expected = run_rows(*whole, golden.prompt, 100, 150, 1, 2);
  auto engine = golden.load(fd);
  const auto incarnation = engine->limits().kv_incarnation;
  run_rows(*engine, golden.prompt, 0, 100, 0, 1);
  engine.reset();
  engine = golden.load(fd);
  CHECK(engine->limits().kv_incarnation == incarnation);
  CHECK(first_difference(expected, run_rows(*engine, golden.prompt, 100, 150, 1, 2)) == -1);
  close(fd);
}

TEST_CASE("states move to shards with another split of the layers") {
  for (const auto& name : recurrent_family_names) {
    CAPTURE(name);
    const recurrent_model golden(name);
    const auto layers = golden.description.layer_count;
    const auto part = [&](std::uint32_t first, std::uint32_t end) {
      return model::layer_range{first, end - first, first == 0, end == layers};
    };
    const auto whole = golden.load();
    run_rows(*whole, golden.prompt, 0, 100, 0, 1);
    const auto expected = run_rows(*whole, golden.prompt, 100, 150, 1, 2);
    // From the cut behind layer 1 to the cut behind layer 2, and back to a whole model.
    std::vector<int> fds;
    std::vector<std::unique_ptr<cpu::engine_cpu>> before;
    for (const auto& range : {part(0, 1), part(1, layers)}) {
      fds.push_back(memfd_create("kv", MFD_CLOEXEC));
      REQUIRE(fds.back() >= 0);
      before.push_back(golden.load(fds.back(), range));
    }
    const auto run_stages = [&](const auto& stages, std::size_t from, std::size_t to,
                                std::uint32_t state_from, std::uint32_t state_to) {
      auto batch = batch_of({{.tokens = piece(golden.prompt, from, to),
                              .position = static_cast<std::uint32_t>(from)}});
      batch.slices[0].state_from = state_from;
      batch.slices[0].state_to = state_to;
      const auto middle = stages[0]->run(batch, {});
      REQUIRE_MESSAGE(middle, middle.error().message);
      REQUIRE(stages[1]->run(batch, middle->activations));
    };
    run_stages(before, 0, 100, 0, 5);
    std::vector<cpu::kv_source> sources;
    for (const int fd : fds) {
      auto source = cpu::kv_source::open(fd);
      REQUIRE_MESSAGE(source, source.error().message);
      sources.push_back(*std::move(source));
      close(fd);
    }
    const std::vector<block_index> blocks{0, 1};
    const std::vector<std::uint32_t> slots{5}, beyond{9}, none{0};
    std::vector<std::unique_ptr<cpu::engine_cpu>> after;
    for (const auto& range : {part(0, 2), part(2, layers)}) {
      after.push_back(golden.load({}, range));
      const auto taken = after.back()->take_over(sources, blocks, slots);
      REQUIRE_MESSAGE(taken, taken.error().message);
    }
    run_stages(after, 100, 150, 5, 6);
    CHECK(first_difference(expected, after[1]->logits(0)) == -1);
    const auto again = golden.load();
    REQUIRE(again->take_over(sources, blocks, slots));
    CHECK(first_difference(expected, run_rows(*again, golden.prompt, 100, 150, 5, 6)) == -1);
    CHECK(again->take_over(sources, blocks, beyond).error().code == errc::invalid_value);
    CHECK(again->take_over(sources, blocks, none).error().code == errc::invalid_value);
    CHECK(again->take_over({sources.data(), 1}, blocks, slots).error().code == errc::invalid_value);
  }
}

TEST_CASE("an engine with states refuses steps without slots, and ranks") {
  const recurrent_model golden;
  const auto engine = golden.load();
  CHECK(engine->limits().state_slots == 8);
  auto batch = batch_of({{.tokens = piece(golden.prompt, 0, 3)}});
  CHECK(engine->run(batch, {}).error().code == errc::invalid_value);
  batch.slices[0].state_to = 9;
  CHECK(engine->run(batch, {}).error().code == errc::invalid_value);
  const auto split = model::split(golden.description, 2);
  REQUIRE(!split);
  CHECK(split.error().message.find("recurrent layers cannot be cut") != std::string::npos);
}
