// Goal: paged attention is softmax(q K) V over the visible positions, and a query's bits depend on
// that query alone. Method: double arithmetic, other query groupings, other instruction sets,
// garbage beyond the visible positions.
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/cpu/kv_pages.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace baton;
using namespace baton::testing;

namespace {

constexpr std::size_t positions_at_once = cpu::kv_block_positions;

// Pages of random keys and values.
struct cache {
  cpu::kv_format format;
  std::size_t size; // head size
  std::vector<std::vector<std::byte>> pages;

  cache(cpu::kv_format f, std::size_t head_size, std::size_t chunks, std::uint32_t seed)
      : format(f), size(head_size), pages(chunks) {
    for (auto& page : pages)
      page.resize(cpu::kv_shape{1, 1, static_cast<std::uint32_t>(size), format}.page_bytes());
    const auto keys = random_floats(chunks * positions_at_once * size, seed);
    const auto values = random_floats(chunks * positions_at_once * size, seed + 1);
    for (std::size_t p = 0; p < chunks * positions_at_once; ++p)
      append(p, keys.data() + p * size, values.data() + p * size);
  }
  void append(std::size_t position, const float* key, const float* value) {
    cpu::kernels_for(cpu::isa::portable)
        .append_kv[static_cast<std::size_t>(format)](key, value, size,
                                                     pages[position / positions_at_once].data(),
                                                     position % positions_at_once);
  }
  std::vector<const std::byte*> pointers() const {
    std::vector<const std::byte*> out;
    for (const auto& page : pages)
      out.push_back(page.data());
    return out;
  }
  double key(std::size_t position, std::size_t d) const {
    return stored_key(format, pages[position / positions_at_once].data(), size,
                      position % positions_at_once, d);
  }
  double value(std::size_t position, std::size_t d) const {
    return stored_value(format, pages[position / positions_at_once].data(), size,
                        position % positions_at_once, d);
  }
};

// Optional attention features of some families.
struct extras {
  std::uint32_t window = 0;
  float soft_cap = 0.0F;
  std::vector<float> sinks = {}; // [queries], or empty
};

// [queries][head_size]
std::vector<float> attend_by_kernel(cpu::isa which, const cache& kv,
                                    const std::vector<float>& queries,
                                    const std::vector<std::uint32_t>& positions,
                                    const extras& with = {}) {
  std::vector<float> out(queries.size());
  std::vector<const float*> q;
  std::vector<float*> o;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    q.push_back(queries.data() + i * kv.size);
    o.push_back(out.data() + i * kv.size);
  }
  const auto pages = kv.pointers();
  cpu::kernels_for(which).attend[static_cast<std::size_t>(kv.format)](
      {q.data(), positions.data(), positions.size(), pages.data(), pages.front(), kv.size, o.data(),
       with.window, with.soft_cap, with.sinks.empty() ? nullptr : with.sinks.data()});
  return out;
}

std::vector<double> exact(const cache& kv, const float* query, std::uint32_t last,
                          const extras& with = {}) {
  const std::size_t first = with.window == 0 || last < with.window ? 0 : last + 1 - with.window;
  const double cap = double{with.soft_cap};
  std::vector<double> weights(last + 1), out(kv.size, 0.0);
  double most = -1e300, sum = 0;
  for (std::size_t p = first; p <= last; ++p) {
    for (std::size_t d = 0; d < kv.size; ++d)
      weights[p] += double{query[d]} * kv.key(p, d);
    if (cap > 0)
      weights[p] = cap * std::tanh(weights[p] / cap);
    most = std::max(most, weights[p]);
  }
  if (!with.sinks.empty()) {
    most = std::max(most, double{with.sinks.front()});
    sum = std::exp(double{with.sinks.front()} - most);
  }
  for (std::size_t p = first; p <= last; ++p)
    sum += weights[p] = std::exp(weights[p] - most);
  for (std::size_t p = first; p <= last; ++p)
    for (std::size_t d = 0; d < kv.size; ++d)
      out[d] += weights[p] / sum * kv.value(p, d);
  return out;
}

} // namespace

TEST_CASE("attention is the softmax average, on every head size and instruction set") {
  for (const auto format : kv_formats)
    for (const std::size_t size : {16U, 48U, 64U, 80U, 128U, 256U, 512U}) {
      const cache kv(format, size, 3, 21);
      for (const std::uint32_t last : {0U, 1U, 63U, 64U, 100U, 191U}) {
        const auto query = random_floats(size, last + 1, 2.0F);
        const auto expected = exact(kv, query.data(), last);
        const auto reference = attend_by_kernel(cpu::isa::portable, kv, query, {last});
        CAPTURE(cpu::name_of(format));
        CAPTURE(size);
        CAPTURE(last);
        for (std::size_t d = 0; d < size; ++d)
          CHECK(double{reference[d]} == doctest::Approx(expected[d]).epsilon(1e-5).scale(1.0));
        for (const auto which : available_isas())
          CHECK(first_difference(reference, attend_by_kernel(which, kv, query, {last})) == -1);
      }
    }
}

TEST_CASE("a sink takes its share of the softmax, also above all scores") {
  const cache kv(cpu::kv_format::f16, 64, 3, 21);
  for (const std::uint32_t last : {0U, 63U, 100U, 191U})
    for (const float sink : {-1e4F, -3.0F, 2.0F, 40.0F, 1e4F}) {
      CAPTURE(last);
      CAPTURE(sink);
      const auto query = random_floats(64, last + 1, 2.0F);
      const extras with{.window = 70, .sinks = {sink}};
      const auto expected = exact(kv, query.data(), last, with);
      const auto reference = attend_by_kernel(cpu::isa::portable, kv, query, {last}, with);
      for (std::size_t d = 0; d < 64; ++d)
        CHECK(double{reference[d]} == doctest::Approx(expected[d]).epsilon(1e-5).scale(1.0));
      for (const auto which : available_isas())
        CHECK(first_difference(reference, attend_by_kernel(which, kv, query, {last}, with)) == -1);
    }
}

TEST_CASE("a query's attention has the same bits whatever other queries are in the call") {
  for (const auto format : kv_formats) {
    CAPTURE(cpu::name_of(format));
    const cache kv(format, 64, 3, 31);
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
          const auto together = attend_by_kernel(which, kv, q, p);
          const auto alone = attend_by_kernel(which, kv, {q.begin(), q.begin() + 64}, {p[0]});
          CHECK(first_difference(alone, std::span(together).subspan(0, 64)) == -1);
        }
    }
  }
}

TEST_CASE("a window and a soft cap follow their definitions, with the same bits everywhere") {
  for (const auto format : kv_formats) {
    CAPTURE(cpu::name_of(format));
    const cache kv(format, 64, 3, 51);
    for (const extras& with :
         {extras{1, 0}, extras{2, 3}, extras{40, 0}, extras{63, 5}, extras{64, 0}, extras{65, 0},
          extras{128, 2}, extras{500, 0}, extras{0, 2}})
      for (const std::uint32_t last : {0U, 1U, 39U, 40U, 62U, 63U, 64U, 104U, 127U, 128U, 191U}) {
        const auto query = random_floats(64, last + 1, 2.0F);
        const auto expected = exact(kv, query.data(), last, with);
        const auto reference = attend_by_kernel(cpu::isa::portable, kv, query, {last}, with);
        CAPTURE(with.window);
        CAPTURE(with.soft_cap);
        CAPTURE(last);
        for (std::size_t d = 0; d < 64; ++d)
          CHECK(double{reference[d]} == doctest::Approx(expected[d]).epsilon(1e-5).scale(1.0));
        for (const auto which : available_isas())
          CHECK(first_difference(reference, attend_by_kernel(which, kv, query, {last}, with)) ==
                -1);
      }
  }
}

// The windows begin in different chunks: the first chunk is hidden from some queries altogether.
TEST_CASE("a query's window gives the same bits whatever other queries are in the call") {
  for (const auto format : kv_formats) {
    CAPTURE(cpu::name_of(format));
    const cache kv(format, 64, 3, 61);
    const std::vector<std::uint32_t> positions = {128, 166, 167, 168, 190, 191};
    const auto queries = random_floats(positions.size() * 64, 78, 2.0F);
    for (const auto which : available_isas())
      for (const std::uint32_t window : {1U, 40U, 64U, 104U, 128U})
        for (std::size_t first = 0; first < positions.size(); ++first) {
          const extras with{window, 4.0F};
          const std::vector<float> q(queries.begin() + static_cast<std::ptrdiff_t>(first * 64),
                                     queries.end());
          const auto together = attend_by_kernel(
              which, kv, q,
              {positions.begin() + static_cast<std::ptrdiff_t>(first), positions.end()}, with);
          for (std::size_t i = first; i < positions.size(); ++i) {
            const auto at = static_cast<std::ptrdiff_t>(i * 64);
            const auto alone = attend_by_kernel(
                which, kv, {queries.begin() + at, queries.begin() + at + 64}, {positions[i]}, with);
            CHECK(first_difference(alone, std::span(together).subspan((i - first) * 64, 64)) == -1);
          }
        }
  }
}

TEST_CASE("chunks before every window are not read") {
  const auto query = random_floats(64, 5, 2.0F);
  for (const auto format : kv_formats) {
    const cache kv(format, 64, 3, 71);
    for (const auto which : available_isas()) {
      const auto before = attend_by_kernel(which, kv, query, {180}, {40, 0});
      cache other = kv;
      other.pages[0] = std::vector<std::byte>();
      other.pages[1] = std::vector<std::byte>();
      REQUIRE(other.pointers()[0] == nullptr);
      CHECK(first_difference(before, attend_by_kernel(which, other, query, {180}, {40, 0})) == -1);
    }
  }
}

TEST_CASE("data beyond the visible positions does not matter") {
  const auto query = random_floats(64, 5, 2.0F);
  const std::vector<float> most(64, INFINITY), least(64, -INFINITY);
  for (const auto format : kv_formats) {
    const cache kv(format, 64, 2, 41);
    for (const auto which : available_isas()) {
      const auto before = attend_by_kernel(which, kv, query, {70});
      cache other = kv;
      for (std::size_t p = 71; p < 2 * positions_at_once; ++p)
        other.append(p, most.data(), least.data()); // the largest values ever stored
      CHECK(first_difference(before, attend_by_kernel(which, other, query, {70})) == -1);
    }
  }
}
