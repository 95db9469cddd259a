// The tests' own encoder is useful only if its output decodes to about the original values.
#include "tests/support/gguf_writer.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace baton;
using model::tensor_type;

TEST_CASE("the reference encoder's output decodes to within the step of its type") {
  // The largest error of a value in [-1, 1] of a smooth row, by the number of levels.
  const std::pair<tensor_type, float> bounds[] = {
      {tensor_type::f32, 0.0F},      {tensor_type::f16, 0.0005F},  {tensor_type::bf16, 0.004F},
      {tensor_type::q8_0, 0.005F},   {tensor_type::q4_0, 0.13F},   {tensor_type::q4_1, 0.07F},
      {tensor_type::q5_0, 0.07F},    {tensor_type::q5_1, 0.034F},  {tensor_type::q4_k, 0.09F},
      {tensor_type::q5_k, 0.05F},    {tensor_type::q6_k, 0.035F},  {tensor_type::q3_k, 0.26F},
      {tensor_type::q2_k, 0.34F},    {tensor_type::iq4_nl, 0.12F}, {tensor_type::iq4_xs, 0.13F},
      {tensor_type::mxfp4, 0.26F},   {tensor_type::tq1_0, 0.51F},  {tensor_type::tq2_0, 0.51F},
      {tensor_type::iq3_xxs, 0.45F}, {tensor_type::iq3_s, 0.4F},   {tensor_type::iq2_xxs, 0.55F},
      {tensor_type::iq2_xs, 0.75F},  {tensor_type::iq2_s, 0.5F},   {tensor_type::iq1_s, 0.8F},
      {tensor_type::iq1_m, 0.7F},
  };
  std::vector<float> values(1024);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto x = static_cast<float>(k);
    values[k] = std::sin(x * 0.37F) * std::cos(x * 0.011F);
  }
  for (const auto& [type, bound] : bounds) {
    const auto& traits = model::tensor_type_traits(type);
    CAPTURE(traits.name);
    const auto blocks = testing::quantize(type, values);
    REQUIRE(blocks.size() == values.size() / traits.block_elements * traits.block_bytes);
    std::vector<float> back(values.size());
    model::dequantize_row(type, blocks.data(), back.data(), back.size());
    float worst = 0.0F;
    for (std::size_t k = 0; k < values.size(); ++k) {
      worst = std::max(worst, std::fabs(values[k] - back[k]));
    }
    CAPTURE(worst);
    CHECK(worst <= bound);
  }
}

TEST_CASE("a row of zeros stays zero in every type") {
  const std::vector<float> zeros(256);
  for (const auto& row : model::tensor_type_table()) {
    if (row.is_supported) {
      CAPTURE(row.name);
      std::vector<float> back(zeros.size(), 1.0F);
      model::dequantize_row(row.type, testing::quantize(row.type, zeros).data(), back.data(),
                            back.size());
      CHECK(back == zeros);
    }
  }
}
