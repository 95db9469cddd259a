// Products of a stage. Our own kernels multiply few rows, and more rows by quantised weights; the
// device multiplies the rest, after quantised weights are expanded to elements.
#pragma once

#include "runtime/gpu/stage/stage_weights.hpp"

namespace baton::gpu {

// The most rows for the kernel of few rows, if weights are quantised and the device has no tiles.
// The kernel reads the weights again for every eight rows.
inline constexpr std::uint32_t packed_rows_max = 16;

class stage_products {
public:
  // Allocates memory for the largest matrix (`elements`) if steps may have more rows than
  // packed_rows_max. Throws what the device throws.
  stage_products(device& on, const plugin::settings& with, std::uint64_t elements);

  // out = in * weights^T; `p` has everything except the weights.
  void multiply(product p, const matrix& weights);

private:
  bool are_tiles(const product& p) const; // requires: weights are quantised
  bool are_few(const product& p, bool is_packed) const;

  device& on_;
  plugin::quantization form_;
  std::uint32_t group_;
  buffer elements_;
};

} // namespace baton::gpu
