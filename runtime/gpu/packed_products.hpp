// Products of a stage: with elements by the device; with quantised weights by a kernel of our own
// for a few rows, and for more of them by the device, on the weights as elements again.
#pragma once

#include "runtime/gpu/stage_weights.hpp"

namespace baton::gpu {

// Up to so many rows the kernel is taken, whose work grows with the rows, while the weights are
// read from memory once for eight of them.
inline constexpr std::uint32_t packed_rows_max = 16;

class packed_products {
public:
  // Takes memory for the largest matrix of `elements` where steps may have more rows than
  // packed_rows_max. Throws what the device throws.
  packed_products(device& on, const plugin::settings& with, std::uint64_t elements);

  // out = in * weights^T; `p` has all but the weights.
  void multiply(product p, const matrix& weights);

private:
  device& on_;
  plugin::quantization form_;
  std::uint32_t group_;
  buffer elements_;
};

} // namespace baton::gpu
