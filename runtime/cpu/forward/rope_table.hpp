// Cosines and sines of the rotary embedding (arXiv 2104.09864) per position, computed once in
// double, up to the highest position requested.
#pragma once

#include "runtime/model/description.hpp"

#include <span>
#include <vector>

namespace baton::cpu {

class rope_table {
public:
  // factors [dimension_count / 2], or empty: divide the frequency of each pair.
  explicit rope_table(const model::rope_description& rope, std::span<const float> factors = {});

  const model::rope_description& rope() const noexcept { return rope_; }
  // Fills positions up to and including `position`. Not thread-safe.
  void extend_to(std::uint32_t position);
  // [dimension_count] each, in the order of the head; the sine carries the rotation's sign.
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

// The tables of a model's ropes.
class rope_tables {
public:
  // factors [ropes]: those of each rope, or empty.
  rope_tables(const model::description& model, std::span<const std::span<const float>> factors);

  void extend_to(std::uint32_t position);
  // Null if the layer is not rotated.
  const rope_table* of(std::uint32_t layer) const noexcept;

private:
  const model::description& model_;
  std::vector<rope_table> tables_; // [ropes]
};

} // namespace baton::cpu
