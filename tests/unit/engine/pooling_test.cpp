// Goal: an embedding has the same bits for every cut of its prompt, and batches that would change
// it are rejected. Method: rows of random values in all cuts; the toy engine against its oracle;
// single changes to a valid batch.
#include "runtime/engine/pooling.hpp"
#include "tests/unit/engine/toy_stages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

using namespace baton;
using namespace baton::engine;

namespace {

constexpr std::size_t hidden = 5;
using rows = std::vector<std::vector<float>>;

// Values of very different sizes: another order of the sum rounds differently.
rows some_rows(std::size_t count) {
  std::mt19937 generator(7);
  rows all(count, std::vector<float>(hidden));
  for (auto& row : all)
    for (float& v : row)
      v = std::ldexp(static_cast<float>(generator() % 20'001) - 10'000,
                     static_cast<int>(generator() % 20) - 20);
  return all;
}

// Pools in slices of these sizes; the last one repeats.
std::vector<float> pooled_in(const rows& all, pooling how, const std::vector<std::size_t>& sizes) {
  std::vector<float> before;
  for (std::size_t at = 0, i = 0; at < all.size(); ++i) {
    const auto count = std::min(sizes[std::min(i, sizes.size() - 1)], all.size() - at);
    slice of;
    of.position = static_cast<std::uint32_t>(at);
    of.rows = static_cast<std::uint32_t>(count);
    pooler sum({0, how, at + count == all.size(), before}, of, hidden);
    for (std::size_t r = at; r < at + count; ++r)
      sum.add(all[r]);
    before = std::move(sum).finish().values;
    at += count;
  }
  return before;
}

double length(const std::vector<float>& values) {
  double squares = 0;
  for (const float v : values)
    squares += double{v} * double{v};
  return std::sqrt(squares);
}

const std::vector<std::vector<std::size_t>> cuts = {{1}, {2}, {3, 1, 4}, {16}, {36, 1}, {1, 35, 1}};

// A prompt of six rows, the first four of them already computed.
micro_batch good_pooling() {
  micro_batch b;
  b.slices = {{{{1}, 0}, 4, 2, false, {0, 1}}, {{{2}, 0}, 0, 3, false, {2}}};
  b.tokens = {1, 2, 3, 4, 5};
  b.pools = {{0, pooling::mean, true, {1, 2, 3, 4}}, {1, pooling::last, false, {}}};
  return b;
}

} // namespace

TEST_CASE("an embedding has the same bits for every cut of its rows") {
  const auto all = some_rows(37);
  for (const auto how : {pooling::mean, pooling::last, pooling::cls}) {
    const auto whole = pooled_in(all, how, {37});
    CHECK(length(whole) == doctest::Approx(1).epsilon(1e-6));
    for (const auto& cut : cuts)
      CHECK(pooled_in(all, how, cut) == whole);
  }
}

TEST_CASE("sums of chunks that are added at the end would have other bits") {
  const auto all = some_rows(37);
  std::vector<float> first(hidden), second(hidden);
  for (std::size_t r = 0; r < all.size(); ++r)
    for (std::size_t i = 0; i < hidden; ++i)
      (r < 20 ? first : second)[i] += all[r][i];
  for (std::size_t i = 0; i < hidden; ++i)
    first[i] += second[i];
  normalise(first);
  CHECK(first != pooled_in(all, pooling::mean, {37}));
}

TEST_CASE("mean, last and first pool the rows that their names say") {
  const auto all = some_rows(9);
  const auto is_along = [&](const std::vector<float>& e, const std::vector<double>& wanted) {
    double product = 0, squares = 0;
    for (std::size_t i = 0; i < hidden; ++i) {
      product += double{e[i]} * wanted[i];
      squares += wanted[i] * wanted[i];
    }
    return product / std::sqrt(squares) > 1 - 1e-6;
  };
  const auto row = [&](std::size_t r) { return std::vector<double>(all[r].begin(), all[r].end()); };
  std::vector<double> mean(hidden);
  for (const auto& each : all)
    for (std::size_t i = 0; i < hidden; ++i)
      mean[i] += double{each[i]} / 9;
  CHECK(is_along(pooled_in(all, pooling::mean, {4}), mean));
  CHECK(is_along(pooled_in(all, pooling::last, {4}), row(8)));
  CHECK(is_along(pooled_in(all, pooling::cls, {4}), row(0)));
  CHECK_FALSE(is_along(pooled_in(all, pooling::cls, {4}), mean));
}

TEST_CASE("a zero vector has no direction and stays zero") {
  std::vector<float> none(3);
  normalise(none);
  CHECK(none == std::vector<float>(3));
}

TEST_CASE("the toy's embeddings match the oracle for any stages, chunks and batch") {
  const std::vector<token_id> ids{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  for (const stage_index stages : {1U, 3U})
    for (const auto how : {pooling::mean, pooling::last, pooling::cls})
      for (const std::size_t chunk : {1U, 3U, 10U}) {
        const toy_model model{.seed = 5, .layers = stages};
        toy_stages all(model);
        std::vector<float> before;
        for (std::size_t at = 0; at < ids.size(); at += chunk) {
          const auto end = std::min(at + chunk, ids.size());
          before = all.run(ids, at, end, {0, how, end == ids.size(), std::move(before)}).values;
        }
        CHECK(before == toy_embedding(model, ids, how));
      }
}

TEST_CASE("pools that contradict their batch are rejected") {
  capacity limits{.blocks = 8,
                  .block_positions = 4,
                  .rows_max = 16,
                  .hidden_size = 4,
                  .vocabulary_size = 100,
                  .max_model_len = 20,
                  .device = "test",
                  .pools = true};
  REQUIRE(validate(good_pooling(), {}, limits, true).has_value());
  const std::vector<std::function<void(micro_batch&)>> changes = {
      [](auto& b) { b.pools[1].slice = 0; },
      [](auto& b) { std::swap(b.pools[0], b.pools[1]); },
      [](auto& b) { b.pools[1].slice = 2; },
      [](auto& b) { b.pools[0].how = pooling::none; },
      [](auto& b) { b.pools[0].before.clear(); },
      [](auto& b) { b.pools[0].before.push_back(1); },
      [](auto& b) { b.pools[0].how = pooling::last; },
      [](auto& b) { b.pools[1].before.resize(4); },
      [](auto& b) {
        b.slices[1].samples = true;
        b.draws.resize(1);
      },
  };
  for (const auto& change : changes) {
    auto b = good_pooling();
    change(b);
    const auto refused = validate(b, {}, limits, true);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::invalid_value);
  }
  limits.pools = false;
  const auto refused = validate(good_pooling(), {}, limits, true);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::unsupported_parameter);
}
