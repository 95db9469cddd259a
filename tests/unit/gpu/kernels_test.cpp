// Goal: the kernels compute what their comments specify, for every number of lanes. Method: the
// bodies that a device compiles, with one lane and with threads as lanes, against sums in double.
#include "tests/unit/gpu/kernel_cases.hpp"
#include "tests/unit/gpu/kind_of.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace baton;
using namespace baton::testing;
using namespace baton::gpu;

// A row of whole runs of 16 bytes, and one without.
TEST_CASE_TEMPLATE("a norm adds pending rows, normalises where it has a gain, and picks rows",
                   Width, std::integral_constant<std::uint32_t, 70>,
                   std::integral_constant<std::uint32_t, 72>) {
  constexpr std::uint32_t rows = 3, hidden = Width::value;
  const auto stream = random_floats(rows * hidden, 1), added = random_floats(rows * hidden, 2, 3),
             gain = random_floats(hidden, 3), added_gain = random_floats(hidden, 4);
  for (const auto lanes : lane_counts)
    for (const bool has_added_gain : {false, true}) {
      auto sums = stream;
      std::vector<float> out(rows * hidden);
      norm_args a{};
      a.kind = element::f32;
      a.rows = rows;
      a.hidden = hidden;
      a.stream = sums.data();
      a.added = added.data();
      a.added_gain = has_added_gain ? added_gain.data() : nullptr;
      a.gain = gain.data();
      a.epsilon = 1e-5F;
      a.out = out.data();
      for (std::uint32_t row = 0; row < rows; ++row)
        run_lanes(lanes, [&](thread_lane& lane) { norm_row<float>(lane, a, row); });
      std::vector<double> expected_sums, expected;
      for (std::uint32_t r = 0; r < rows; ++r) {
        const double scale = norm_scale({added.data() + r * hidden, hidden}, 1e-5);
        std::vector<float> row;
        for (std::uint32_t i = 0; i < hidden; ++i) {
          const double x = double{added[r * hidden + i]};
          expected_sums.push_back(double{stream[r * hidden + i]} +
                                  (has_added_gain ? x * scale * double{added_gain[i]} : x));
          row.push_back(static_cast<float>(expected_sums.back()));
        }
        const double own = norm_scale(row, 1e-5);
        for (std::uint32_t i = 0; i < hidden; ++i)
          expected.push_back(double{row[i]} * own * double{gain[i]});
      }
      check_all_near(sums, expected_sums);
      check_all_near(out, expected);
      // Picked rows, without a sum.
      const std::uint32_t picked[] = {2, 0};
      a.added = nullptr;
      a.picked = picked;
      a.rows = 2;
      const auto before = sums;
      for (std::uint32_t row = 0; row < 2; ++row)
        run_lanes(lanes, [&](thread_lane& lane) { norm_row<float>(lane, a, row); });
      CHECK(sums == before);
      check_all_near({out.data(), hidden}, {expected.begin() + 2 * hidden, expected.end()});
      check_all_near({out.data() + hidden, hidden}, {expected.begin(), expected.begin() + hidden});
    }
}

TEST_CASE_TEMPLATE("norms and gates handle rows of any type, in whole runs of 16 bytes or not", T,
                   float, f16, bf16) {
  constexpr element kind = kind_of<T>;
  constexpr double bound = std::is_same_v<T, float> ? near : 0x1p-8; // at least 8 bits
  for (const std::uint32_t width : {70U, 72U})
    for (const auto lanes : lane_counts) {
      CAPTURE(width);
      CAPTURE(lanes);
      const auto wide = random_floats(2 * width, 1, 3), gain = random_floats(width, 2);
      std::vector<T> both(wide.size()), out(width);
      for (std::size_t i = 0; i < wide.size(); ++i)
        narrow(wide[i], both[i]);
      const auto check = [&](const std::vector<double>& expected) {
        std::vector<float> found;
        for (const T x : out)
          found.push_back(widen(x));
        check_all_near(found, expected, bound);
      };
      const gate_args g{kind, 1, width, both.data(), out.data(), plugin::activation::silu};
      run_lanes(lanes, [&](thread_lane& lane) { gate_row<T>(lane, g, 0); });
      std::vector<double> gated, normed;
      for (std::uint32_t i = 0; i < width; ++i) {
        const auto x = static_cast<double>(widen(both[i]));
        gated.push_back(x / (1 + std::exp(-x)) * static_cast<double>(widen(both[width + i])));
      }
      check(gated);
      auto stream = wide;
      norm_args n{};
      n.kind = kind;
      n.rows = 1;
      n.hidden = width;
      n.stream = stream.data();
      n.gain = gain.data();
      n.epsilon = 1e-5F;
      n.out = out.data();
      run_lanes(lanes, [&](thread_lane& lane) { norm_row<T>(lane, n, 0); });
      for (std::uint32_t i = 0; i < width; ++i)
        normed.push_back(double{wide[i]} * norm_scale({wide.data(), width}, 1e-5) *
                         double{gain[i]});
      check(normed);
    }
}

TEST_CASE("heads get bias, norm, rotation and scale; keys and values change their page alone") {
  for (const auto lanes : lane_counts)
    for (const int variant : {0, 1, 2, 3}) {
      CAPTURE(lanes);
      CAPTURE(variant);
      rotation_case c;
      c.args.rotates_pairs = variant % 2 == 0;
      if (variant >= 2) {
        c.args.bias = c.args.query_norm = c.args.key_norm = nullptr;
        if (variant == 3)
          c.args.cosine = c.args.sine = nullptr;
      }
      auto after = c.row;
      c.args.projected = after.data();
      for (std::uint32_t h = 0; h < c.heads + 2 * c.kv_heads; ++h)
        run_lanes(lanes, [&](thread_lane& lane) { rotate_head<float, float>(lane, c.args, 0, h); });
      std::vector<std::vector<double>> expected;
      for (std::uint32_t h = 0; h < c.heads + 2 * c.kv_heads; ++h)
        expected.push_back(c.expected(h));
      for (std::uint32_t h = 0; h < c.heads; ++h)
        check_all_near({after.data() + h * c.size, c.size}, expected[h]);
      for (std::uint32_t h = 0; h < c.kv_heads; ++h) {
        const auto page =
            ((c.block * c.kv_heads + h) * c.positions + c.position % c.positions) * c.size;
        check_all_near({c.keys.data() + page, c.size}, expected[c.heads + h]);
        check_all_near({c.values.data() + page, c.size}, expected[c.heads + c.kv_heads + h]);
      }
      for (const auto* pages : {&c.keys, &c.values})
        CHECK(std::count(pages->begin(), pages->end(), -77.0F) ==
              static_cast<std::ptrdiff_t>(pages->size() - c.kv_heads * c.size));
    }
}

TEST_CASE("gates, caps, embeddings and rows by expert follow their definitions") {
  constexpr std::uint32_t rows = 3, width = 37;
  const auto both = random_floats(rows * 2 * width, 1, 4);
  for (const auto act : {plugin::activation::silu, plugin::activation::gelu_tanh}) {
    std::vector<double> expected;
    for (std::uint32_t r = 0; r < rows; ++r)
      for (std::uint32_t i = 0; i < width; ++i) {
        const double g = double{both[r * 2 * width + i]};
        const double u = std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g);
        const double y =
            act == plugin::activation::silu ? g / (1 + std::exp(-g)) : 0.5 * g * (1 + std::tanh(u));
        expected.push_back(y * double{both[r * 2 * width + width + i]});
      }
    for (const auto lanes : lane_counts) {
      std::vector<float> out(rows * width);
      const gate_args a{element::f32, rows, width, both.data(), out.data(), act};
      for (std::uint32_t r = 0; r < rows; ++r)
        run_lanes(lanes, [&](thread_lane& lane) { gate_row<float>(lane, a, r); });
      check_all_near(out, expected);
    }
  }
  std::vector<float> capped{-100, -1, 0, 0.5F, 1e30F};
  host_kernels().cap({capped.size(), capped.data(), 2.0F}, nullptr);
  check_all_near(capped, {-2, 2 * std::tanh(-0.5), 0, 2 * std::tanh(0.25), 2});
  const std::int32_t tokens[] = {2, 0};
  std::vector<float> embedded(2 * width);
  host_kernels().embed({element::f32, 2, width, tokens, both.data(), 0.5F, embedded.data()},
                       nullptr);
  for (std::uint32_t i = 0; i < width; ++i) {
    CHECK(embedded[i] == both[2 * width + i] * 0.5F);
    CHECK(embedded[width + i] == both[i] * 0.5F);
  }
  const std::uint32_t picked[] = {4, 1};
  std::vector<float> gathered(2 * width);
  host_kernels().gather({element::f32, 2, width, picked, both.data(), gathered.data()}, nullptr);
  CHECK(std::equal(gathered.begin(), gathered.begin() + width, both.begin() + 4 * width));
  CHECK(std::equal(gathered.begin() + width, gathered.end(), both.begin() + width));
  const float weights[] = {2.0F, -0.5F};
  auto sums = both;
  host_kernels().scatter({2, width, picked, weights, gathered.data(), sums.data()}, nullptr);
  for (std::uint32_t i = 0; i < width; ++i) {
    CHECK(sums[4 * width + i] == both[4 * width + i] * 3);
    CHECK(sums[width + i] == both[width + i] + -0.5F * both[width + i]);
    CHECK(sums[i] == both[i]);
  }
}

TEST_CASE("the drawn tokens feed the rows, with a substitute where nothing could be drawn") {
  const std::uint32_t rows[] = {3, 0, 4}, draws[] = {1, 2, 0};
  const std::int32_t drawn[] = {70, 80, -1};
  std::int32_t tokens[] = {-1, 11, 12, -1, -1};
  host_kernels().feed({3, rows, draws, drawn, tokens}, nullptr);
  const std::int32_t expected[] = {0, 11, 12, 80, 70};
  CHECK(std::equal(std::begin(tokens), std::end(tokens), std::begin(expected)));
}

TEST_CASE("the best experts are chosen with the right weights; the lower index wins ties") {
  const std::vector<float> scores{0.5F, 2.0F, 2.0F, -1.0F, 1.0F};
  for (const bool normalises : {false, true}) {
    std::uint32_t chosen[3] = {};
    float weights[3] = {};
    host_kernels().choose({1, 5, 3, scores.data(), normalises, chosen, weights}, nullptr);
    CHECK(std::vector<std::uint32_t>(chosen, chosen + 3) == std::vector<std::uint32_t>{1, 2, 4});
    double sum = 0;
    for (const float x : scores)
      sum += normalises && x < 1.0F ? 0 : std::exp(double{x});
    check_all_near({weights, 3}, {std::exp(2.0) / sum, std::exp(2.0) / sum, std::exp(1.0) / sum});
  }
}
