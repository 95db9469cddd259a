// Goal: a mixture computed without a host synchronisation matches the host path, and can be
// recorded. Method: the bodies with one lane and with threads as lanes against sums in double. The
// families' mixtures on the plain device both ways, with plain and packed weights. Recorded steps
// against eager ones.
#include "runtime/gpu/bodies/expert_bodies.hpp"
#include "runtime/plugin/plugin_engine.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/gpu/kind_of.hpp"
#include "tests/unit/gpu/thread_team.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

using namespace baton;
using namespace baton::testing;
using namespace baton::gpu;
using plugin::quantization;

namespace {

// The experts that some rows have chosen, and the resulting (row, expert) pairs.
struct choice {
  std::uint32_t rows, experts, used, height;
  std::vector<std::uint32_t> chosen, counts, pairs, order;
  std::vector<expert_tile> tiles;

  // `crowd`: all rows want the same experts.
  choice(std::uint32_t r, std::uint32_t e, std::uint32_t u, std::uint32_t h, bool crowd = false)
      : rows(r), experts(e), used(u), height(h), counts(e, 99), pairs(r * u, 99), order(r * u, 99),
        tiles(tiles_max(r * u, e, h), expert_tile{99, 99, 99}) {
    std::mt19937 random(r + 31 * e + 977 * u);
    std::vector<std::uint32_t> all(e);
    std::iota(all.begin(), all.end(), 0U);
    for (std::uint32_t row = 0; row < r; ++row) {
      if (row == 0 || !crowd)
        std::shuffle(all.begin(), all.end(), random);
      chosen.insert(chosen.end(), all.begin(), all.begin() + u);
    }
  }

  void group(std::uint32_t lanes) {
    const group_args a{rows,
                       experts,
                       used,
                       height,
                       static_cast<std::uint32_t>(tiles.size()),
                       chosen.data(),
                       counts.data(),
                       tiles.data(),
                       pairs.data(),
                       order.data()};
    if (lanes == 1)
      host_kernels().group(a, nullptr);
    else
      run_lanes(lanes, [&](thread_lane& lane) { group_pairs(lane, a); });
  }
};

std::uint32_t width_of(const choice& c) {
  return c.rows * c.used;
}

plugin::config expert_settings(const std::string& device) {
  plugin::config c;
  c.device = device;
  c.blocks = 16;
  c.rows_max = 128;
  c.keeps_logits = true;
  return c;
}

std::unique_ptr<plugin::plugin_engine> load_experts(const family_golden& golden,
                                                    const plugin::config& c) {
  const auto library = plugin::library::open(engines_directory() / "engine_plain.so");
  REQUIRE_MESSAGE(library, library.error().message);
  auto engine = plugin::plugin_engine::load(*library, *golden.file, golden.description,
                                            model::whole(golden.description), c);
  REQUIRE_MESSAGE(engine, engine.error().message);
  return *std::move(engine);
}

// Distance of two engines' logits, relative to their size.
double apart(const logits_by_position& expected, const logits_by_position& found) {
  double squares = 0, errors = 0;
  for (const auto& [position, logits] : expected)
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double x = double{logits[i]}, error = x - double{found.at(position)[i]};
      squares += x * x;
      errors += error * error;
    }
  return std::sqrt(errors / squares);
}

const std::vector<std::string> mixtures = {"mixtral", "qwen3moe"};

} // namespace

TEST_CASE("every pair is in one tile of its expert, in order, with any number of lanes") {
  for (const auto& [rows, experts, used] :
       {std::tuple(1U, 8U, 2U), {3U, 8U, 2U}, {16U, 5U, 5U}, {40U, 128U, 8U}, {33U, 4U, 1U}})
    for (const std::uint32_t height : {1U, 4U, 8U})
      for (const bool crowd : {false, true})
        for (const std::uint32_t lanes : {1U, 3U, 7U}) {
          choice c(rows, experts, used, height, crowd);
          c.group(lanes);
          CAPTURE(rows);
          CAPTURE(height);
          CAPTURE(lanes);
          std::vector<std::uint32_t> seen;
          std::uint32_t last_expert = 0;
          for (const auto& tile : c.tiles) {
            if (tile.count == 0)
              continue;
            REQUIRE(tile.count <= height);
            REQUIRE(tile.expert >= last_expert);
            REQUIRE(tile.first == seen.size());
            last_expert = tile.expert;
            for (std::uint32_t i = 0; i < tile.count; ++i) {
              const auto pair = c.pairs.at(tile.first + i);
              REQUIRE(c.chosen.at(pair) == tile.expert);
              seen.push_back(pair);
            }
          }
          REQUIRE(seen.size() == width_of(c));
          std::sort(seen.begin(), seen.end());
          for (std::uint32_t pair = 0; pair < seen.size(); ++pair)
            REQUIRE(seen[pair] == pair);
          for (std::uint32_t i = 0; i < width_of(c); ++i) { // of one row, by expert
            REQUIRE(c.order[i] / used == i / used);
            if (i % used > 0)
              REQUIRE(c.chosen[c.order[i - 1]] < c.chosen[c.order[i]]);
          }
        }
}

TEST_CASE_TEMPLATE("a tile's products are those of its pairs with its expert", T, float, f16,
                   bf16) {
  constexpr std::uint32_t columns = 64, outputs = 5;
  choice c(11, 4, 2, 8);
  c.group(1);
  std::vector<std::vector<T>> weights(c.experts);
  std::vector<matrix> matrices;
  for (std::uint32_t e = 0; e < c.experts; ++e) {
    for (const float x : random_floats(columns * outputs, 50 + e, 0.1F))
      narrow(x, weights[e].emplace_back());
    matrices.push_back({weights[e].data(), nullptr});
  }
  for (const bool is_by_row : {true, false}) {
    std::vector<T> in;
    for (const float x : random_floats((is_by_row ? c.rows : width_of(c)) * columns, 7))
      narrow(x, in.emplace_back());
    std::vector<float> out(std::size_t{width_of(c)} * outputs, NAN);
    expert_args a{};
    a.kind = kind_of<T>;
    a.height = c.height;
    a.tile_count = static_cast<std::uint32_t>(c.tiles.size());
    a.pairs_of_row = is_by_row ? c.used : 1;
    a.columns = columns;
    a.outputs = outputs;
    a.tiles = c.tiles.data();
    a.pairs = c.pairs.data();
    a.matrices = matrices.data();
    a.in = in.data();
    a.out = out.data();
    a.is_out_f32 = true;
    for (const std::uint32_t lanes : {1U, 4U}) {
      std::fill(out.begin(), out.end(), NAN);
      for (std::uint32_t tile = 0; tile < a.tile_count; ++tile)
        for (std::uint64_t o = 0; o < outputs; ++o)
          run_lanes(lanes, [&](thread_lane& lane) {
            multiply_tile<T, element_output<T>, 8>(lane, a, tile, o);
          });
      for (std::uint32_t pair = 0; pair < width_of(c); ++pair)
        for (std::uint32_t o = 0; o < outputs; ++o) {
          double expected = 0;
          const std::size_t row = is_by_row ? pair / c.used : pair;
          for (std::uint32_t k = 0; k < columns; ++k)
            expected += double{widen(in[row * columns + k])} *
                        double{widen(weights[c.chosen[pair]][o * columns + k])};
          REQUIRE(std::abs(double{out[pair * outputs + o]} - expected) < 1e-5);
        }
    }
    // Low tiles give the bits of high ones.
    host_kernels().multiply_experts(a, nullptr);
    choice low(c.rows, c.experts, c.used, 1);
    low.group(1);
    auto of_low = a;
    std::vector<float> low_out(out.size(), NAN);
    of_low.height = 1;
    of_low.tile_count = static_cast<std::uint32_t>(low.tiles.size());
    of_low.tiles = low.tiles.data();
    of_low.pairs = low.pairs.data();
    of_low.out = low_out.data();
    host_kernels().multiply_experts(of_low, nullptr);
    CHECK(out == low_out);
  }
}

TEST_CASE("expert outputs are added in order, as the host adds them") {
  choice c(9, 6, 3, 4);
  c.group(1);
  constexpr std::uint32_t width = 13;
  const auto from = random_floats(width_of(c) * width, 1);
  const auto weights = random_floats(width_of(c), 2);
  std::vector<float> expected(c.rows * width, 0), out(c.rows * width, NAN);
  for (std::uint32_t e = 0; e < c.experts; ++e)
    for (std::uint32_t pair = 0; pair < width_of(c); ++pair)
      for (std::uint32_t i = 0; c.chosen[pair] == e && i < width; ++i)
        expected[pair / c.used * width + i] += weights[pair] * from[pair * width + i];
  const combine_args a{c.rows,         c.used,      width,     c.order.data(),
                       weights.data(), from.data(), out.data()};
  host_kernels().combine(a, nullptr);
  CHECK(out == expected);
  std::fill(out.begin(), out.end(), NAN);
  for (std::uint32_t row = 0; row < c.rows; ++row)
    run_lanes(3, [&](thread_lane& lane) { combine_row(lane, a, row); });
  CHECK(out == expected);
}

TEST_CASE("both ways to compute a mixture give the logits of transformers") {
  for (const auto& name : mixtures) {
    CAPTURE(name);
    const family_golden golden(name);
    const auto by_host = load_experts(golden, expert_settings("plain-hosted")),
               on_device = load_experts(golden, expert_settings("plain"));
    for (const std::size_t rows : {1U, 9U, 128U}) {
      const auto expected = run_in_steps(*by_host, golden.prompt, {rows}),
                 found = run_in_steps(*on_device, golden.prompt, {rows});
      CHECK(apart(expected, found) < 1e-5);
      if (rows > 1)
        continue;
      CHECK(golden.compare(expected).mean < 2e-4);
      CHECK(golden.compare(found).mean < 2e-4);
    }
  }
}

TEST_CASE("packed experts give the same results both ways") {
  for (const auto form : {quantization::fp8, quantization::int4}) {
    const family_golden golden("mixtral");
    auto settings = expert_settings("plain-hosted");
    settings.weights = plugin::element::f32;
    settings.quantized = form;
    settings.group = 32;
    const auto by_host = load_experts(golden, settings);
    settings.device = "plain";
    const auto on_device = load_experts(golden, settings);
    const auto expected = run_in_steps(*by_host, golden.prompt, {4}),
               found = run_in_steps(*on_device, golden.prompt, {4});
    CHECK(apart(expected, found) < 1e-5);
  }
}

TEST_CASE("a mixture's steps are recorded, with the bits of eager steps") {
  for (const auto& name : mixtures) {
    CAPTURE(name);
    const family_golden golden(name);
    std::vector<std::string> logged;
    auto settings = expert_settings("plain");
    settings.rows_max = 6;
    settings.log_line = [&](const std::string& line) { logged.push_back(line); };
    const auto recorded = load_experts(golden, settings);
    settings.log_line = {};
    settings.is_eager = true;
    const auto eager = load_experts(golden, settings);
    std::vector<std::uint32_t> next(5);
    for (std::uint32_t step = 0; step < 9; ++step) {
      std::vector<part> parts;
      for (std::uint32_t i = 0; i < 1 + step % 3 * 2; ++i) // 1, 3, 5 rows
        parts.push_back({.sequence = i + 1,
                         .tokens = {static_cast<token_id>((5 + 7 * i + 3 * step) % 60)},
                         .position = next[i]++,
                         .blocks_from = 2 * i});
      const auto batch = batch_of(parts);
      REQUIRE(recorded->run(batch, {}));
      REQUIRE(eager->run(batch, {}));
      for (std::size_t i = 0; i < parts.size(); ++i)
        CHECK(first_difference(eager->logits(i), recorded->logits(i)) == -1);
    }
    for (const auto* size : {"1", "4", "6"})
      CHECK(std::count(logged.begin(), logged.end(),
                       fmt::format("recorded a step of {} rows", size)) >= 1);
    logged.clear();
    settings.is_eager = false;
    settings.device = "plain-hosted"; // where the host groups rows, nothing can be
    settings.log_line = [&](const std::string& line) { logged.push_back(line); };
    const auto hosted = load_experts(golden, settings);
    for (int i = 0; i < 3; ++i)
      REQUIRE(hosted->run(batch_of({{1, {5}, 0}}), {}));
    CHECK(logged.empty());
  }
}
