// Goal: the kernels compute what families need beyond llama. Method: as in kernels_test.cpp.
#include "tests/unit/gpu/kernel_cases.hpp"

#include <algorithm>

using namespace baton;
using namespace baton::testing;
using namespace baton::gpu;

TEST_CASE("a norm of deviations, a copy without a gain, and scaled rows that are added") {
  for (const std::uint32_t hidden : {70U, 72U})
    for (const auto lanes : lane_counts) {
      const auto stream = random_floats(hidden, 1, 2), gain = random_floats(hidden, 2),
                 added = random_floats(hidden, 3);
      auto sums = stream;
      std::vector<float> out(hidden);
      norm_args a{};
      a.kind = element::f32;
      a.rows = 1;
      a.hidden = hidden;
      a.stream = sums.data();
      a.added = added.data();
      a.added_scale = 0.5F;
      a.gain = gain.data();
      a.epsilon = 1e-5F;
      a.out = out.data();
      a.subtracts_mean = true;
      const auto run = [&] {
        run_lanes(lanes, [&](thread_lane& lane) { norm_row<float>(lane, a, 0); });
      };
      run();
      std::vector<double> expected_sums, expected;
      std::vector<float> deviations;
      double mean = 0;
      for (std::uint32_t i = 0; i < hidden; ++i) {
        expected_sums.push_back(double{stream[i]} + 0.5 * double{added[i]});
        mean += expected_sums.back() / hidden;
      }
      for (const double x : expected_sums)
        deviations.push_back(static_cast<float>(x - mean));
      const double scale = norm_scale(deviations, 1e-5);
      for (std::uint32_t i = 0; i < hidden; ++i)
        expected.push_back(double{deviations[i]} * scale * double{gain[i]});
      check_all_near(sums, expected_sums);
      check_all_near(out, expected);
      a.gain = nullptr;
      a.added = nullptr;
      out.assign(hidden, -77);
      run();
      CHECK(std::count(out.begin(), out.end(), -77.0F) == hidden); // no copy is asked for
      a.copies = true;
      run();
      CHECK(out == sums);
    }
}

TEST_CASE("the norm of a head may come after its rotation, and queries may grow") {
  for (const auto lanes : lane_counts)
    for (const bool is_growing : {false, true}) {
      rotation_case c, plain; // without norms and scale: the rotated heads
      c.args.norms_behind = true;
      c.args.growth_weight = is_growing ? 0.5F : 0.0F;
      c.args.growth_offset = 1;
      c.args.growth_length = 3; // position 6: two steps
      plain.args.query_norm = plain.args.key_norm = nullptr;
      const double scale = double{c.args.query_scale} * (is_growing ? 1 + 0.5 * std::log(3.0) : 1);
      auto after = c.row;
      c.args.projected = after.data();
      for (std::uint32_t h = 0; h < c.heads + 2 * c.kv_heads; ++h)
        run_lanes(lanes, [&](thread_lane& lane) { rotate_head<float, float>(lane, c.args, 0, h); });
      const auto normed = [&](std::uint32_t head, const std::vector<float>& gain) {
        const auto rotated = plain.expected(head);
        const bool is_query = head < c.heads;
        const std::vector<float> values = [&] {
          std::vector<float> v;
          for (const double x : rotated)
            v.push_back(static_cast<float>(is_query ? x / double{c.args.query_scale} : x));
          return v;
        }();
        const double own = norm_scale(values, double{c.args.epsilon});
        std::vector<double> out;
        for (std::uint32_t i = 0; i < c.size; ++i)
          out.push_back(double{values[i]} * own * double{gain[i]} * (is_query ? scale : 1));
        return out;
      };
      for (std::uint32_t h = 0; h < c.heads; ++h)
        check_all_near({after.data() + h * c.size, c.size}, normed(h, c.query_norm));
      for (std::uint32_t h = 0; h < c.kv_heads; ++h) {
        const auto page =
            ((c.block * c.kv_heads + h) * c.positions + c.position % c.positions) * c.size;
        check_all_near({c.keys.data() + page, c.size}, normed(c.heads + h, c.key_norm));
        check_all_near({c.values.data() + page, c.size}, plain.expected(c.heads + c.kv_heads + h));
      }
    }
}

TEST_CASE("queries and keys of a row are normalised as wholes, values are not") {
  constexpr std::uint32_t rows = 2, query = 37, key = 12, elements = query + 2 * key;
  const auto before = random_floats(rows * elements, 1, 3), query_norm = random_floats(query, 2),
             key_norm = random_floats(key, 3);
  for (const auto lanes : lane_counts) {
    auto after = before;
    const row_norm_args a{element::f32, rows,         query + 2 * key,   query,
                          key,          after.data(), query_norm.data(), key_norm.data(),
                          1e-5F};
    std::vector<double> expected;
    for (std::uint32_t r = 0; r < rows; ++r) {
      const float* row = before.data() + r * elements;
      for (const std::uint32_t part : {0U, 1U})
        run_lanes(lanes, [&](thread_lane& lane) { norm_part<float>(lane, a, r, part); });
      const double of_query = norm_scale({row, query}, 1e-5);
      const double of_key = norm_scale({row + query, key}, 1e-5);
      for (std::uint32_t i = 0; i < elements; ++i)
        expected.push_back(double{row[i]} * (i < query ? of_query * double{query_norm[i]}
                                             : i < query + key
                                                 ? of_key * double{key_norm[i - query]}
                                                 : 1.0));
    }
    check_all_near(after, expected);
  }
}

TEST_CASE("shared experts join the others, times the sigmoid of their score") {
  constexpr std::uint32_t rows = 2, width = 37;
  const auto from = random_floats(rows * width, 1), before = random_floats(rows * width, 2);
  const std::vector<float> scores{0.5F, -2.0F};
  for (const bool is_gated : {false, true})
    for (const auto lanes : lane_counts) {
      auto out = before;
      const join_args a{rows, width, is_gated ? scores.data() : nullptr, from.data(), out.data()};
      std::vector<double> expected;
      for (std::uint32_t r = 0; r < rows; ++r) {
        run_lanes(lanes, [&](thread_lane& lane) { join_row(lane, a, r); });
        const double weight = is_gated ? 1 / (1 + std::exp(-double{scores[r]})) : 1;
        for (std::uint32_t i = 0; i < width; ++i)
          expected.push_back(double{before[r * width + i]} + weight * double{from[r * width + i]});
      }
      check_all_near(out, expected);
    }
}

TEST_CASE("experts are weighed by sigmoids, and a bias only chooses") {
  const std::vector<float> scores{0.5F, 2.0F, 1.5F, -1.0F}, bias{0, -1, 0, 1};
  const auto sigmoid_of = [&](std::size_t e) { return 1 / (1 + std::exp(-double{scores[e]})); };
  for (const bool normalises : {false, true})
    for (const bool is_biased : {false, true}) {
      std::uint32_t chosen[2] = {};
      float weights[2] = {};
      host_kernels().choose({.rows = 1,
                             .experts = 4,
                             .used = 2,
                             .scores = scores.data(),
                             .normalises = normalises,
                             .chosen = chosen,
                             .weights = weights,
                             .form = plugin::router_form::sigmoid,
                             .choice_bias = is_biased ? bias.data() : nullptr,
                             .scale = 1.5F},
                            nullptr);
      const std::vector<std::uint32_t> expected =
          is_biased ? std::vector<std::uint32_t>{3, 2} : std::vector<std::uint32_t>{1, 2};
      CHECK(std::vector<std::uint32_t>(chosen, chosen + 2) == expected);
      const double sum = normalises ? sigmoid_of(expected[0]) + sigmoid_of(expected[1]) : 1.0;
      check_all_near({weights, 2},
                     {1.5 * sigmoid_of(expected[0]) / sum, 1.5 * sigmoid_of(expected[1]) / sum});
    }
}

// Infinite gates and ups meet the limits.
TEST_CASE("clamped gates have biases by expert, and sums of experts have biases") {
  constexpr std::uint32_t rows = 3, width = 37, experts = 2;
  auto both = random_floats(rows * 2 * width, 1, 12);
  const auto bias = random_floats(experts * 2 * width, 2);
  const std::uint32_t of_row[] = {1, 0, 1};
  for (const bool is_listed : {false, true})
    for (const auto lanes : lane_counts) {
      std::vector<double> expected;
      std::vector<float> out(rows * width);
      const gate_args a{.kind = element::f32,
                        .rows = rows,
                        .width = width,
                        .gate_up = both.data(),
                        .out = out.data(),
                        .act = plugin::activation::clamped_silu,
                        .bias = bias.data(),
                        .experts = is_listed ? of_row : nullptr};
      for (std::uint32_t r = 0; r < rows; ++r) {
        run_lanes(lanes, [&](thread_lane& lane) { gate_row<float>(lane, a, r); });
        const float* own = bias.data() + (is_listed ? of_row[r] : 0) * 2 * width;
        for (std::uint32_t i = 0; i < width; ++i) {
          const double g = std::min(double{both[r * 2 * width + i] + own[i]}, 7.0);
          const double u =
              std::clamp(double{both[r * 2 * width + width + i] + own[width + i]}, -7.0, 7.0);
          expected.push_back(g / (1 + std::exp(-1.702 * g)) * (u + 1));
        }
      }
      check_all_near(out, expected);
    }
  const std::uint32_t picked[] = {1};
  const float weights[] = {0.5F};
  std::vector<float> sums(2 * width, 1);
  host_kernels().scatter({.rows = 1,
                          .width = width,
                          .picked = picked,
                          .weights = weights,
                          .from = both.data(),
                          .out = sums.data(),
                          .bias = bias.data()},
                         nullptr);
  for (std::uint32_t i = 0; i < width; ++i)
    CHECK(sums[width + i] == 1 + 0.5F * (both[i] + bias[i]));
  const std::uint32_t order[] = {1, 0}, chosen[] = {1, 0};
  const float of_pairs[] = {0.25F, 2.0F};
  host_kernels().combine({.rows = 1,
                          .used = 2,
                          .width = width,
                          .order = order,
                          .weights = of_pairs,
                          .from = both.data(),
                          .out = sums.data(),
                          .bias = bias.data(),
                          .chosen = chosen},
                         nullptr);
  for (std::uint32_t i = 0; i < width; ++i) {
    const double second = 2.0 * double{both[width + i] + bias[i]};
    const double first = 0.25 * double{both[i] + bias[width + i]};
    check_all_near({sums.data() + i, 1}, {second + first});
  }
}
