#include "runtime/gpu/step_rows.hpp"

#include <algorithm>
#include <bit>

namespace baton::gpu {

void step_rows::set(device& on, const plugin::batch& batch, std::uint32_t block_positions) {
  rows_ = batch.rows;
  draws_ = batch.draws;
  std::size_t blocks = 0;
  for (std::uint32_t i = 0; i < batch.slice_count; ++i)
    blocks += batch.slices[i].block_count;
  host_.assign(std::size_t{4} * rows_ + draws_ + blocks, 0);
  std::uint32_t* tokens = host_.data();
  std::uint32_t *positions = tokens + rows_, *places = positions + rows_, *tables = places + rows_;
  std::uint32_t *picked = tables + rows_, *table = picked + draws_;
  for (std::uint32_t i = 0; i < rows_; ++i)
    tokens[i] = std::bit_cast<std::uint32_t>(batch.tokens[i]);
  std::uint32_t row = 0, draw = 0, table_at = 0;
  for (std::uint32_t i = 0; i < batch.slice_count; ++i) {
    const auto& slice = batch.slices[i];
    for (std::uint32_t r = 0; r < slice.rows; ++r) {
      const std::uint32_t position = slice.position + r;
      positions[row + r] = position;
      places[row + r] =
          slice.blocks[position / block_positions] * block_positions + position % block_positions;
      tables[row + r] = table_at;
    }
    row += slice.rows;
    for (std::uint32_t left = slice.draws; left > 0; --left)
      picked[draw++] = row - left;
    table = std::copy_n(slice.blocks, slice.block_count, table);
    table_at += slice.block_count;
  }
  if (host_.size() > room_) {
    room_ = std::bit_ceil(host_.size());
    on_device_ = on.take(room_ * sizeof(std::uint32_t));
  }
  on.upload(on_device_.as<void>(), host_.data(), host_.size() * sizeof(std::uint32_t));
}

} // namespace baton::gpu
