#include "runtime/gpu/step_rows.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

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
  copy_over(on);
}

void step_rows::set_padded(device& on, const plugin::batch& batch, std::uint32_t block_positions,
                           std::uint32_t size, std::uint32_t spare_block) {
  rows_ = draws_ = size;
  std::size_t blocks = 1;
  for (std::uint32_t i = 0; i < batch.slice_count; ++i)
    blocks += batch.slices[i].block_count;
  host_.assign(std::size_t{5} * size + blocks, 0);
  std::uint32_t *tokens = host_.data(), *positions = tokens + size, *places = positions + size,
                *tables = places + size, *picked = tables + size, *begin = picked + size,
                *table = begin;
  for (std::uint32_t row = 0; row < batch.rows; ++row) {
    const auto& slice = batch.slices[row];
    tokens[row] = std::bit_cast<std::uint32_t>(batch.tokens[row]);
    positions[row] = slice.position;
    places[row] = slice.blocks[slice.position / block_positions] * block_positions +
                  slice.position % block_positions;
    tables[row] = static_cast<std::uint32_t>(table - begin);
    table = std::copy_n(slice.blocks, slice.block_count, table);
  }
  *table = spare_block;
  for (std::uint32_t row = batch.rows; row < size; ++row) {
    places[row] = spare_block * block_positions;
    tables[row] = static_cast<std::uint32_t>(table - begin);
  }
  std::iota(picked, picked + size, 0U);
  copy_over(on);
}

void step_rows::copy_over(device& on) {
  if (host_.size() > room_) {
    ++moves_;
    room_ = std::bit_ceil(host_.size());
    on_device_ = on.take(room_ * sizeof(std::uint32_t));
  }
  on.upload(on_device_.as<void>(), host_.data(), host_.size() * sizeof(std::uint32_t));
}

} // namespace baton::gpu
