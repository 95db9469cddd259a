// Cosines and sines of the rotary embedding (arXiv 2104.09864), by position, computed in double
// once: positions are filled up to the highest one asked for.
#pragma once

#include "runtime/model/description.hpp"

#include <vector>

namespace baton::cpu {

class rope_table {
public:
  explicit rope_table(const model::rope_description& rope);

  // Makes positions up to and with `position` readable. Not thread-safe.
  void extend_to(std::uint32_t position);
  // [dimension_count] each, in the order of the head; the sign of the rotation is in the sine.
  // Requires: extend_to(position).
  const float* cosine(std::uint32_t position) const noexcept {
    return cosine_.data() + std::size_t{position} * rope_.dimension_count;
  }
  const float* sine(std::uint32_t position) const noexcept {
    return sine_.data() + std::size_t{position} * rope_.dimension_count;
  }

private:
  model::rope_description rope_;
  std::vector<double> frequency_; // [dimension_count / 2], radians per position
  std::vector<float> cosine_;
  std::vector<float> sine_;
};

} // namespace baton::cpu
