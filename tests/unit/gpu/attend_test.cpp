// Goal: a query attends to its visible positions, through its blocks, for every grouping of heads,
// number of lanes per position and number of context splits. Method: the body that a device
// compiles, with one lane and with threads as lanes, against softmax in double.
#include "runtime/gpu/bodies/attend_body.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/gpu/thread_team.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;
using namespace baton::gpu;

namespace {

struct head_shape {
  std::uint32_t heads, kv_heads, size;
};

// Tables of two sequences (the query belongs to the second); keys and values of all blocks.
struct context {
  static constexpr std::uint32_t positions = 4, blocks = 14;
  head_shape s;
  std::uint32_t last, window;
  float cap;
  std::vector<float> query, keys, values;
  std::vector<std::uint32_t> table{9, 12, 4, 0, 5, 2, 13, 7, 1, 11, 3, 10, 6};
  std::vector<float> sinks = {};                   // [heads], or empty
  std::uint32_t at[2] = {0, 0}, begin[2] = {0, 1}; // the first row has one position

  context(const head_shape& of, std::uint32_t last_position, std::uint32_t seen, float capped)
      : s(of), last(last_position), window(seen), cap(capped),
        query(random_floats(2 * of.heads * of.size, 1, 2)),
        keys(random_floats(blocks * of.kv_heads * positions * of.size, 2)),
        values(random_floats(blocks * of.kv_heads * positions * of.size, 3)) {
    at[1] = last;
  }

  std::vector<double> expected() const {
    std::vector<double> out;
    for (std::uint32_t row = 0; row < 2; ++row)
      for (std::uint32_t h = 0; h < s.heads; ++h) {
        const auto first = window != 0 && at[row] >= window ? at[row] - window + 1 : 0;
        std::vector<double> sum(s.size);
        double total = sinks.empty() ? 0 : std::exp(double{sinks[h]});
        for (auto p = first; p <= at[row]; ++p) {
          const auto* key = &keys[page(row, h, p)];
          double score = 0;
          for (std::uint32_t i = 0; i < s.size; ++i)
            score += double{query[(row * s.heads + h) * s.size + i]} * double{key[i]};
          const double weight =
              std::exp(cap > 0 ? double{cap} * std::tanh(score / double{cap}) : score);
          total += weight;
          for (std::uint32_t i = 0; i < s.size; ++i)
            sum[i] += weight * double{values[page(row, h, p) + i]};
        }
        for (const double x : sum)
          out.push_back(x / total);
      }
    return out;
  }

  std::size_t page(std::uint32_t row, std::uint32_t head, std::uint32_t position) const {
    const auto block = table[begin[row] + position / positions];
    const auto kv_head = head / (s.heads / s.kv_heads);
    return ((block * s.kv_heads + kv_head) * positions + position % positions) * s.size;
  }

  attend_args args(std::uint32_t splits, std::vector<float>& out, std::vector<float>& parts) const {
    out.assign(query.size(), NAN);
    parts.assign(std::size_t{2} * s.heads * splits * (s.size + 2), NAN);
    attend_args a{};
    a.kind = element::f32;
    a.rows = 2;
    a.heads = s.heads;
    a.row_elements = s.heads * s.size;
    a.projected = query.data();
    a.out = out.data();
    a.positions = at;
    a.tables = begin;
    a.blocks = table.data();
    a.window = window;
    a.soft_cap = cap;
    a.sinks = sinks.empty() ? nullptr : sinks.data();
    a.kv = {element::f32,
            const_cast<float*>(keys.data()),
            const_cast<float*>(values.data()),
            positions,
            s.kv_heads,
            s.size};
    a.splits = splits;
    a.parts = parts.data();
    return a;
  }
};

template <std::uint32_t PerLane>
void attend_in_lanes(const attend_args& a, std::uint32_t lanes) {
  with_group(a, [&]<std::uint32_t Group>(heads_together<Group>) {
    for (std::uint32_t row = 0; row < a.rows; ++row)
      for (std::uint32_t group = 0; group < groups_of<Group>(a); ++group)
        for (std::uint32_t split = 0; split < a.splits; ++split)
          run_lanes(lanes, [&](thread_lane& lane) {
            attend_group<float, float, Group, PerLane>(lane, a, row, group, split);
          });
  });
  for (std::uint32_t row = 0; row < a.rows && a.splits > 1; ++row)
    for (std::uint32_t head = 0; head < a.heads; ++head)
      run_lanes(lanes, [&](thread_lane& lane) { merge_head<float>(lane, a, row, head); });
}

void check_near(const std::vector<float>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(double{found[i]} - expected[i]) <= 1e-4 * (1 + std::abs(expected[i])));
  }
}

} // namespace

TEST_CASE("attention is softmax over the visible positions, for any lanes, groups and splits") {
  // Query heads per KV head: 1, 2, 3 (one less than a team of four), 8, and 11 (two teams).
  const head_shape shapes[] = {{2, 2, 12}, {4, 2, 64}, {6, 2, 40}, {8, 1, 16}, {11, 1, 24}};
  for (const auto& s : shapes)
    for (const auto& [last, window, cap] : {std::tuple(46U, 0U, 0.0F),
                                            {46U, 37U, 0.0F},
                                            {13U, 5U, 1.5F},
                                            {0U, 0U, 0.0F},
                                            {45U, 0U, 0.0F}}) {
      context c(s, last, window, cap);
      if (last == 46U || last == 0U) // some above all scores
        c.sinks = random_floats(s.heads, 4, 12);
      const auto expected = c.expected();
      CAPTURE(s.heads);
      CAPTURE(last);
      for (const std::uint32_t splits : {1U, 2U, 5U}) {
        CAPTURE(splits);
        std::vector<float> out, parts;
        // One lane, three lanes with a position each, eight lanes that share positions.
        attend_in_lanes<64>(c.args(splits, out, parts), 1);
        check_near(out, expected);
        const auto alone = out;
        attend_in_lanes<64>(c.args(splits, out, parts), 3);
        check_near(out, expected);
        attend_in_lanes<8>(c.args(splits, out, parts), 8);
        check_near(out, expected);
        // The host's table takes the same path for one lane.
        host_kernels().attend(c.args(splits, out, parts), nullptr);
        CHECK(out == alone);
      }
    }
}

TEST_CASE("a row's attention has the same bits whatever rows are beside it") {
  const context c({6, 2, 40}, 46, 0, 0);
  std::vector<float> both, own, parts;
  host_kernels().attend(c.args(3, both, parts), nullptr);
  auto a = c.args(3, own, parts);
  a.rows = 1; // the second one alone
  a.projected = c.query.data() + a.row_elements;
  a.positions = c.at + 1;
  a.tables = c.begin + 1;
  host_kernels().attend(a, nullptr);
  const std::span<const float> second(both.data() + a.row_elements, a.row_elements);
  CHECK(first_difference(second, {own.data(), a.row_elements}) == -1);
}
