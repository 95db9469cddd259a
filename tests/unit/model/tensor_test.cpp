// Block layouts and narrow floats: against the reference package's goldens, hand-computed blocks,
// and the definition of rounding.
#include "runtime/model/tensors/code_grids.hpp"
#include "runtime/model/tensors/tensor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

using namespace baton::model;

namespace {

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::ifstream golden_file() {
  return std::ifstream(BATON_SOURCE_DIR "/tests/data/model/dequantize.golden");
}

std::vector<float> decoded(tensor_type type, std::span<const std::byte> blocks, std::size_t n) {
  std::vector<float> out(n);
  dequantize_row(type, blocks.data(), out.data(), n);
  return out;
}

} // namespace

TEST_CASE("every known tensor type has the layout of the reference package") {
  auto file = golden_file();
  REQUIRE(file);
  std::size_t seen = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string tag;
    std::string name;
    std::uint32_t number = 0;
    std::uint32_t elements = 0;
    std::uint32_t bytes = 0;
    if (!(words >> tag) || tag != "layout") {
      continue;
    }
    REQUIRE(static_cast<bool>(words >> number >> name >> elements >> bytes));
    if (const auto type = tensor_type_from(number)) {
      CAPTURE(name);
      const auto& traits = tensor_type_traits(*type);
      CHECK(traits.name == name);
      CHECK(traits.block_elements == elements);
      CHECK(traits.block_bytes == bytes);
      ++seen;
    }
  }
  CHECK(seen == tensor_type_table().size());
}

TEST_CASE("blocks decode to the same bits as in the reference package") {
  auto file = golden_file();
  REQUIRE(file);
  std::set<std::string> seen;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string tag;
    std::string name;
    std::string blocks;
    std::string floats;
    if (!(words >> tag) || tag != "blocks") {
      continue;
    }
    REQUIRE(static_cast<bool>(words >> name >> blocks >> floats));
    CAPTURE(name);
    const auto table = tensor_type_table();
    const auto row = std::ranges::find(table, name, &tensor_traits::name);
    REQUIRE(row != table.end());
    const auto wanted = from_hex(floats);
    const auto found = decoded(row->type, from_hex(blocks), wanted.size() / sizeof(float));
    CHECK(std::memcmp(found.data(), wanted.data(), wanted.size()) == 0);
    seen.insert(name);
  }
  for (const auto& row : tensor_type_table()) {
    if (row.is_supported && row.type != tensor_type::f32) {
      CHECK_MESSAGE(seen.contains(std::string(row.name)), row.name);
    }
  }
}

TEST_CASE("the grids have the points of the reference package") {
  const auto hash_of = [](const auto& grid) { // FNV-1a
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const auto& point : grid)
      for (const std::int8_t number : point)
        hash = (hash ^ static_cast<std::uint8_t>(number)) * 0x100000001B3U;
    return hash;
  };
  const std::map<std::string, std::uint64_t> ours = {
      {"IQ2_XXS", hash_of(iq2_xxs_grid)}, {"IQ2_XS", hash_of(iq2_xs_grid)},
      {"IQ2_S", hash_of(iq2_s_grid)},     {"IQ3_XXS", hash_of(iq3_xxs_grid)},
      {"IQ3_S", hash_of(iq3_s_grid)},     {"IQ1_S", hash_of(iq1_grid)}};
  auto file = golden_file();
  std::size_t seen = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string tag, name, hash;
    if (!(words >> tag >> name >> hash) || tag != "grid")
      continue;
    CAPTURE(name);
    CHECK(ours.at(name) == std::stoull(hash, nullptr, 16));
    ++seen;
  }
  CHECK(seen == ours.size());
}

TEST_CASE("a Q4_1 block computed by hand decodes") {
  // d = 0.5 (0x3800), m = -1 (0xBC00); byte j holds element j low and element j + 16 high.
  auto block = from_hex("003800bc"
                        "f0000000000000000000000000000021");
  const auto x = decoded(tensor_type::q4_1, block, 32);
  CHECK(x[0] == -1.0F);
  CHECK(x[16] == 6.5F); // 0.5 * 15 - 1
  CHECK(x[15] == -0.5F);
  CHECK(x[31] == 0.0F);
}

TEST_CASE("a Q4_K block computed by hand decodes") {
  // d = 1, dmin = 1. Scales and mins: group 0 has 1 and 2. Group 4 has 3 + (1 << 4) = 0x13 and 5 +
  // (2 << 4) = 0x25. Their upper bits are at the top of bytes 0 and 4.
  std::vector<std::byte> block(144);
  const auto set = [&](std::size_t at, unsigned value) {
    block[at] = static_cast<std::byte>(value);
  };
  set(1, 0x3C);
  set(3, 0x3C);
  set(4 + 0, 1U | 1U << 6U);
  set(4 + 4, 2U | 2U << 6U);
  set(4 + 8, 3U | 5U << 4U);
  set(16 + 7, 9);       // group 0, element 7
  set(16 + 64 + 31, 4); // group 4, element 31
  const auto x = decoded(tensor_type::q4_k, block, 256);
  CHECK(x[7] == 7.0F);            // 1 * 9 - 2
  CHECK(x[0] == -2.0F);           // 1 * 0 - 2
  CHECK(x[4 * 32 + 31] == 39.0F); // 19 * 4 - 37
  CHECK(x[5 * 32] == 0.0F);       // an empty group
  CHECK(x[4 * 32] == -37.0F);     // 19 * 0 - 37
}

TEST_CASE("a view finds its rows in every number of dimensions") {
  std::vector<std::byte> bytes(3 * 2 * 68);
  const tensor_view view{
      .name = "t", .type = tensor_type::q8_0, .shape = {64, 3, 2}, .bytes = bytes};
  CHECK(view.columns() == 64);
  CHECK(view.rows() == 6);
  CHECK(view.elements() == 384);
  CHECK(view.row_bytes() == 68);
  CHECK(view.row(5).data() == bytes.data() + 5 * 68);
  CHECK(view.row(5).size() == 68);
  const tensor_view line{.name = "t", .type = tensor_type::f32, .shape = {7}, .bytes = {}};
  CHECK(line.rows() == 1);
  CHECK(tensor_view{}.rows() == 0);
}

TEST_CASE("a number without a type is not a tensor type") {
  for (const std::uint32_t number : {4U, 5U, 9U, 31U, 40U, 1000U, 0xFFFFFFFFU}) {
    CHECK_FALSE(tensor_type_from(number));
  }
}

TEST_CASE("every binary16 value decodes by its fields and encodes to itself") {
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const auto bits = static_cast<std::uint16_t>(half);
    const float wide = f16_to_f32(bits);
    const int exponent = static_cast<int>(half >> 10U & 31U);
    const auto fraction = static_cast<double>(half & 1023U);
    if (exponent == 31 && fraction != 0.0) {
      REQUIRE(std::isnan(wide));
      REQUIRE(std::isnan(f16_to_f32(f32_to_f16(wide))));
      continue;
    }
    const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024.0 + fraction, exponent - 25);
    REQUIRE(static_cast<double>(std::fabs(wide)) == magnitude);
    REQUIRE(std::signbit(wide) == (half >= 0x8000U));
    REQUIRE(f32_to_f16(wide) == bits);
  }
}

TEST_CASE("rounding to binary16 takes the nearest value, ties to even") {
  // For each pair of neighbours: the midpoint, and the floats just below and above it. The last
  // pair is 65504 to 65536, where 65536 stands for infinity.
  for (std::uint32_t half = 0; half < 0x7C00; ++half) {
    const double below = static_cast<double>(f16_to_f32(static_cast<std::uint16_t>(half)));
    const double above =
        half == 0x7BFF ? 65536.0
                       : static_cast<double>(f16_to_f32(static_cast<std::uint16_t>(half + 1)));
    const auto middle = static_cast<float>((below + above) / 2); // exact: needs one more bit
    const std::uint32_t even = half % 2 == 0 ? half : half + 1;
    REQUIRE(f32_to_f16(middle) == even);
    REQUIRE(f32_to_f16(std::nextafterf(middle, 0.0F)) == half);
    REQUIRE(f32_to_f16(std::nextafterf(middle, 1e30F)) == half + 1);
    REQUIRE(f32_to_f16(-std::nextafterf(middle, 1e30F)) == ((half + 1U) | 0x8000U));
  }
  CHECK(f32_to_f16(1e30F) == 0x7C00);
  CHECK(f32_to_f16(-1e-30F) == 0x8000);
}

TEST_CASE("rounding to bfloat16 takes the nearest value, ties to even, and keeps NaN") {
  for (const std::uint32_t brain : {0U, 1U, 0x3F80U, 0x3F81U, 0x7F7EU, 0x7F7FU}) {
    const auto middle = std::bit_cast<float>(brain << 16U | 0x8000U);
    CHECK(f32_to_bf16(middle) == (brain % 2 == 0 ? brain : brain + 1));
    CHECK(f32_to_bf16(std::bit_cast<float>(brain << 16U | 0x7FFFU)) == brain);
    CHECK(f32_to_bf16(std::bit_cast<float>(brain << 16U | 0x8001U)) == brain + 1);
    CHECK(bf16_to_f32(static_cast<std::uint16_t>(brain)) == std::bit_cast<float>(brain << 16U));
  }
  CHECK(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
  CHECK(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0xFFFFFFFFU)))));
}
