// Cosines and sines of the rotary embedding (arXiv 2104.09864), by position, computed in double
// once: positions are filled up to the highest one asked for.
#pragma once

#include "runtime/model/description.hpp"

#include <optional>
#include <span>
#include <vector>

namespace baton::cpu {

class rope_table {
public:
  // factors [dimension_count / 2], or empty: each pair's frequency is divided by its factor.
  explicit rope_table(const model::rope_description& rope, std::span<const float> factors = {});

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

// The tables of a model's layers: those with a window may have their own.
class rope_tables {
public:
  // factors [rope.dimension_count / 2], or empty: of the layers without their own table.
  rope_tables(const model::description& model, std::span<const float> factors);

  void extend_to(std::uint32_t position);
  // Nothing if the layer is not rotated.
  const rope_table* of(std::uint32_t layer) const noexcept;

private:
  const model::description& model_;
  rope_table all_;
  std::optional<rope_table> windowed_;
};

} // namespace baton::cpu
