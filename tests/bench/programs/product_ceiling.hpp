// The upper bound on a model's speed from the processor's rate of products.
#pragma once

#include "runtime/cpu/kernels/isa.hpp"
#include "runtime/model/description.hpp"

#include <cstdint>
#include <vector>

namespace baton {

// For a row of a prompt, or a row that also draws.
struct product_ceiling {
  double products = 0; // millions
  // By round; empty if the instructions or their rate are unknown.
  std::vector<double> rows_a_second;
};
struct product_ceilings {
  product_ceiling prompt, decoded;
};

// Multiply-adds at the width of the activations (`bits`: 8 or 16; floats where the weights are),
// and those that scale each block of quantised weights, as in runtime/cpu/kernels/matmul_body.hpp.
// Excluded: unpacking or reading weights, quantising rows, attention. In a mixture, only the
// experts that a row uses count. Requires: describe(file) gave `model`.
product_ceilings measure_product_ceilings(const model::model_file& file,
                                          const model::description& model, cpu::isa which,
                                          std::uint32_t bits, std::uint32_t threads, int rounds);

} // namespace baton
