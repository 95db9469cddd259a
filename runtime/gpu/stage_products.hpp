// Products of a stage: of a few rows by a kernel of our own, of more of them by the device, for
// which quantised weights become elements again.
#pragma once

#include "runtime/gpu/stage_weights.hpp"

namespace baton::gpu {

// With quantised weights the kernel is taken up to so many rows: its work grows with the rows,
// while the weights are read from memory once for eight of them.
inline constexpr std::uint32_t packed_rows_max = 16;

class stage_products {
public:
  // Takes memory for the largest matrix of `elements` where steps may have more rows than
  // packed_rows_max. Throws what the device throws.
  stage_products(device& on, const plugin::settings& with, std::uint64_t elements);

  // out = in * weights^T; `p` has all but the weights.
  void multiply(product p, const matrix& weights);

private:
  bool are_few(const product& p, bool is_packed) const;

  device& on_;
  plugin::quantization form_;
  std::uint32_t group_;
  buffer elements_;
};

} // namespace baton::gpu
