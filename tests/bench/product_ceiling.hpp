// What the processor's rate of products allows a model, if it did nothing else.
#pragma once

#include "runtime/cpu/kernels/isa.hpp"
#include "runtime/model/description.hpp"

#include <cstdint>
#include <vector>

namespace baton {

// Of a row of a prompt, or of one that draws as well.
struct product_ceiling {
  double products = 0; // millions
  // By round; empty if the instructions or their rate are unknown.
  std::vector<double> rows_a_second;
};
struct product_ceilings {
  product_ceiling prompt, decoded;
};

// Multiplies and adds of the width of the activations (`bits`: 8 or 16; floats where the weights
// are), and those that scale each block of quantised weights, as
// runtime/cpu/kernels/matmul_body.hpp has them: no weight is unpacked or read from memory, no row
// is quantised, nothing attends. Of a mixture's experts those that a row passes through count.
// Requires: describe(file) gave `model`.
product_ceilings measure_product_ceilings(const model::model_file& file,
                                          const model::description& model, cpu::isa which,
                                          std::uint32_t bits, std::uint32_t threads, int rounds);

} // namespace baton
