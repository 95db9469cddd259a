// Goal: paged attention is softmax(q K) V over the visible positions, and a query's bits depend on
// nothing but its own. Method: double arithmetic, other query groupings, other instruction sets,
// rubbish beyond the visible positions.
#include "runtime/model/tensor.hpp"
#include "tests/unit/cpu/isas.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace baton;
using namespace baton::testing;

namespace {

constexpr std::size_t chunk = cpu::kv_block_positions;

struct cache {
  std::size_t size; // of a head
  std::vector<std::vector<std::uint16_t>> pages;
  std::vector<const std::uint16_t*> pointers;

  cache(std::size_t head_size, std::size_t chunks, std::uint32_t seed) : size(head_size) {
    for (std::size_t c = 0; c < chunks; ++c) {
      auto& page = pages.emplace_back();
      for (const float x : random_floats(2 * size * chunk, seed + static_cast<std::uint32_t>(c)))
        page.push_back(model::f32_to_f16(x));
    }
    for (const auto& page : pages)
      pointers.push_back(page.data());
  }
  double key(std::size_t position, std::size_t d) const {
    return double{model::f16_to_f32(pages[position / chunk][d * chunk + position % chunk])};
  }
  double value(std::size_t position, std::size_t d) const {
    return double{
        model::f16_to_f32(pages[position / chunk][(chunk + position % chunk) * size + d])};
  }
};

// [queries][head_size]
std::vector<float> attend(cpu::isa which, const cache& kv, const std::vector<float>& queries,
                          const std::vector<std::uint32_t>& positions) {
  std::vector<float> out(queries.size());
  std::vector<const float*> q;
  std::vector<float*> o;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    q.push_back(queries.data() + i * kv.size);
    o.push_back(out.data() + i * kv.size);
  }
  cpu::kernels_for(which).attend(
      {q.data(), positions.data(), positions.size(), kv.pointers.data(), kv.size, o.data()});
  return out;
}

std::vector<double> exact(const cache& kv, const float* query, std::uint32_t last) {
  std::vector<double> weights(last + 1), out(kv.size, 0.0);
  double most = -1e300, sum = 0;
  for (std::size_t p = 0; p <= last; ++p) {
    for (std::size_t d = 0; d < kv.size; ++d)
      weights[p] += double{query[d]} * kv.key(p, d);
    most = std::max(most, weights[p]);
  }
  for (double& w : weights)
    sum += w = std::exp(w - most);
  for (std::size_t p = 0; p <= last; ++p)
    for (std::size_t d = 0; d < kv.size; ++d)
      out[d] += weights[p] / sum * kv.value(p, d);
  return out;
}

} // namespace

TEST_CASE("attention is the softmax average, on every head size and instruction set") {
  for (const std::size_t size : {16U, 48U, 64U, 80U, 128U, 256U}) {
    const cache kv(size, 3, 21);
    for (const std::uint32_t last : {0U, 1U, 63U, 64U, 100U, 191U}) {
      const auto query = random_floats(size, last + 1, 2.0F);
      const auto expected = exact(kv, query.data(), last);
      const auto reference = attend(cpu::isa::portable, kv, query, {last});
      CAPTURE(size);
      CAPTURE(last);
      for (std::size_t d = 0; d < size; ++d)
        CHECK(double{reference[d]} == doctest::Approx(expected[d]).epsilon(1e-5).scale(1.0));
      for (const auto which : available_isas())
        CHECK(first_difference(reference, attend(which, kv, query, {last})) == -1);
    }
  }
}

TEST_CASE("a query's attention has the same bits in any company of queries") {
  const cache kv(64, 3, 31);
  const std::vector<std::uint32_t> positions = {130, 130, 131, 140, 191, 191};
  const auto queries = random_floats(positions.size() * 64, 77, 2.0F);
  for (const auto which : available_isas()) {
    for (std::size_t count = 1; count <= positions.size(); ++count)
      for (std::size_t first = 0; first + count <= positions.size(); ++first) {
        const std::vector<float> q(queries.begin() + static_cast<std::ptrdiff_t>(first * 64),
                                   queries.begin() +
                                       static_cast<std::ptrdiff_t>((first + count) * 64));
        const std::vector<std::uint32_t> p(positions.begin() + static_cast<std::ptrdiff_t>(first),
                                           positions.begin() +
                                               static_cast<std::ptrdiff_t>(first + count));
        const auto together = attend(which, kv, q, p);
        const auto alone = attend(which, kv, {q.begin(), q.begin() + 64}, {p[0]});
        CHECK(first_difference(alone, std::span(together).subspan(0, 64)) == -1);
      }
  }
}

TEST_CASE("what lies beyond the visible positions does not matter") {
  cache kv(64, 2, 41);
  const auto query = random_floats(64, 5, 2.0F);
  for (const auto which : available_isas()) {
    const auto before = attend(which, kv, query, {70});
    cache other = kv;
    other.pointers.clear();
    for (std::size_t p = 71 % chunk; p < chunk; ++p)
      for (std::size_t d = 0; d < 64; ++d) {
        other.pages[1][d * chunk + p] = 0x7BFF; // 65504, the most that is ever stored
        other.pages[1][(chunk + p) * 64 + d] = 0xFBFF;
      }
    for (const auto& page : other.pages)
      other.pointers.push_back(page.data());
    CHECK(first_difference(before, attend(which, other, query, {70})) == -1);
  }
}
