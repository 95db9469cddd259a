// Goal: a KV page holds the appended rows, to the precision of its format. Method: appends rows of
// awkward floats at every position, reads them back element by element, and compares the bytes
// between instruction sets.
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/cpu/kv_pages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace baton;
using namespace baton::testing;

namespace {

std::vector<std::byte> page_of(cpu::kv_format format, std::size_t head_size) {
  return std::vector<std::byte>(
      cpu::kv_shape{1, 1, static_cast<std::uint32_t>(head_size), format}.page_bytes());
}

// Blocks of 32 values, each awkward in its own way.
std::vector<float> awkward_row(std::size_t head_size, std::uint32_t seed) {
  auto x = random_floats(head_size, seed);
  const std::vector<float> specials = {0.0F,   -0.0F,    65504.0F,  65520.0F, 1e30F,   -1e30F,
                                       1e-8F,  5.96e-8F, 6.1e-5F,   6.0e-5F,  2049.0F, 2051.0F,
                                       1e-40F, INFINITY, -INFINITY, NAN};
  for (std::size_t i = 0; i < head_size; ++i) {
    if (i / 32 % 4 == 1)
      x[i] = specials[i % specials.size()];
    if (i / 32 % 4 == 2)
      x[i] *= 1e-6F; // the scale is an f16 denormal
    if (i / 32 % 4 == 3)
      x[i] = 0;
  }
  return x;
}

// The stored value of x: finite for every x.
double saturated(cpu::kv_format format, float x) {
  const float most = format == cpu::kv_format::f32 ? std::numeric_limits<float>::max() : 65504.0F;
  return double{std::isnan(x) ? -most : std::min(std::max(x, -most), most)};
}

// Error bound for an element of the block of 32 that begins at x[from].
double bound_of(cpu::kv_format format, const std::vector<float>& x, std::size_t from,
                double wanted) {
  if (format == cpu::kv_format::f32)
    return 0;
  if (format == cpu::kv_format::f16)
    return std::max(std::abs(wanted) * 0x1p-11, 0x1p-25);
  double largest = 0;
  for (std::size_t i = from; i < std::min(from + 32, x.size()); ++i)
    largest = std::max(largest, std::abs(saturated(format, x[i])));
  // Half a code, with its scale rounded by 2^-11, or by 2^-25 where it is a denormal: then the
  // largest value is off by as many codes.
  const double scale = largest / 127;
  return scale * 0.5 * (1 + 0x1p-10) + 128 * std::max(scale * 0x1p-11, 0x1p-25);
}

} // namespace

TEST_CASE("a row of keys and values is stored in its page, to the precision of the format") {
  for (const auto format : kv_formats)
    for (const std::size_t size : {16U, 48U, 64U, 80U, 128U, 256U}) {
      auto page = page_of(format, size);
      for (std::uint32_t position = 0; position < 64; ++position) {
        const auto key = awkward_row(size, position), value = awkward_row(size, position + 100);
        cpu::kernels_for(cpu::isa::portable)
            .append_kv[static_cast<std::size_t>(format)](key.data(), value.data(), size,
                                                         page.data(), position);
      }
      CAPTURE(cpu::name_of(format));
      CAPTURE(size);
      for (std::uint32_t position = 0; position < 64; ++position) {
        const auto key = awkward_row(size, position), value = awkward_row(size, position + 100);
        for (std::size_t d = 0; d < size; ++d) {
          CAPTURE(key[d]);
          const double k = saturated(format, key[d]), v = saturated(format, value[d]);
          CHECK(std::abs(stored_key(format, page.data(), size, position, d) - k) <=
                bound_of(format, key, d / 32 * 32, k));
          CHECK(std::abs(stored_value(format, page.data(), size, position, d) - v) <=
                bound_of(format, value, d / 32 * 32, v));
        }
      }
    }
}

TEST_CASE("every instruction set stores the same bytes") {
  for (const auto format : kv_formats)
    for (const std::size_t size : {16U, 80U, 256U}) {
      std::vector<std::byte> first;
      for (const auto which : available_isas()) {
        auto page = page_of(format, size);
        for (std::uint32_t position = 0; position < 64; ++position) {
          const auto key = awkward_row(size, position), value = awkward_row(size, position + 100);
          cpu::kernels_for(which).append_kv[static_cast<std::size_t>(format)](
              key.data(), value.data(), size, page.data(), position);
        }
        if (first.empty())
          first = page;
        CAPTURE(cpu::name_of(format));
        CAPTURE(size);
        CAPTURE(cpu::name_of(which));
        CHECK(page == first);
      }
    }
}

TEST_CASE("formats have llama.cpp's names and sizes") {
  for (const auto format : kv_formats)
    CHECK(cpu::kv_format_from(cpu::name_of(format)) == format);
  CHECK_FALSE(cpu::kv_format_from("q4_0"));
  CHECK_FALSE(cpu::kv_format_from(""));
  const auto block = [](cpu::kv_format format, std::uint32_t head_size) {
    return cpu::kv_shape{30, 3, head_size, format}.block_bytes();
  };
  constexpr std::size_t elements = std::size_t{30} * 3 * 64 * 64 * 2;
  CHECK(block(cpu::kv_format::f16, 64) == elements * 2);
  CHECK(block(cpu::kv_format::f32, 64) == elements * 4);
  CHECK(block(cpu::kv_format::q8_0, 64) == elements / 32 * 34);
  CHECK(block(cpu::kv_format::q8_0, 48) == std::size_t{30} * 3 * 64 * 2 * (48 + 2 * 2));
}
