// Reads quantised activation rows, for comparison.
#pragma once

#include "runtime/cpu/kernels/activation.hpp"

#include <array>

namespace baton::testing {

struct quantised_block {
  std::array<int, 32> values;
  cpu::activation_terms terms;
};

template <cpu::activation_width Width>
quantised_block read_block_of(const std::byte* row, std::size_t index) {
  const auto& block = reinterpret_cast<const cpu::activation_block<Width>*>(row)[index];
  quantised_block out{{}, block.terms};
  for (std::size_t k = 0; k < out.values.size(); ++k)
    out.values[k] = block.values[cpu::activation_index(Width, k)];
  return out;
}

// Block `index` of a row, with its values in the order of k.
inline quantised_block read_block(cpu::activation_width width, const std::byte* row,
                                  std::size_t index) {
  using enum cpu::activation_width;
  return width == bits8 ? read_block_of<bits8>(row, index) : read_block_of<bits16>(row, index);
}

} // namespace baton::testing
