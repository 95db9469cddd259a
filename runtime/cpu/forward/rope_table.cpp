// Fills the rope tables.
#include "runtime/cpu/forward/rope_table.hpp"

#include "runtime/model/rope.hpp"

#include <cmath>

namespace baton::cpu {
namespace {
constexpr std::uint32_t positions_per_fill = 256; // so decoding rarely extends the table
}

rope_table::rope_table(const model::rope_description& rope, std::span<const float> factors)
    : rope_(rope), frequency_(model::rope_frequencies(rope, factors)) {}

void rope_table::extend_to(std::uint32_t position) {
  const std::size_t width = rope_.dimension_count;
  if (width == 0)
    return;
  const std::size_t filled = cosine_.size() / width;
  if (position < filled)
    return;
  const std::size_t wanted = (std::size_t{position} / positions_per_fill + 1) * positions_per_fill;
  cosine_.resize(wanted * width);
  sine_.resize(wanted * width);
  const bool is_paired = rope_.kind == model::rope_kind::normal;
  for (std::size_t p = filled; p < wanted; ++p)
    for (std::size_t i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(p) * frequency_[i];
      const auto c = static_cast<float>(std::cos(angle) * double{rope_.magnitude});
      const auto s = static_cast<float>(std::sin(angle) * double{rope_.magnitude});
      const std::size_t first = p * width + (is_paired ? 2 * i : i);
      const std::size_t second = p * width + (is_paired ? 2 * i + 1 : i + width / 2);
      cosine_[first] = cosine_[second] = c;
      sine_[first] = -s;
      sine_[second] = s;
    }
}

rope_tables::rope_tables(const model::description& model,
                         std::span<const std::span<const float>> factors)
    : model_(model) {
  for (std::size_t i = 0; i < model.ropes.size(); ++i)
    tables_.emplace_back(model.ropes[i], factors[i]);
}

void rope_tables::extend_to(std::uint32_t position) {
  for (auto& table : tables_)
    table.extend_to(position);
}

const rope_table* rope_tables::of(std::uint32_t layer) const noexcept {
  const auto rope = model_.layers[layer].rope;
  return rope ? &tables_[*rope] : nullptr;
}

} // namespace baton::cpu
