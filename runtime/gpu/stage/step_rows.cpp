#include "runtime/gpu/stage/step_rows.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace baton::gpu {

step_rows::step_rows(device& on, const plugin::settings& with) {
  const std::size_t rows = with.rows_max;
  // fill() and picked; a sequence per row: append_groups(); append_feeds()
  constexpr std::size_t of_a_row = 5 + 3 + 2;
  constexpr std::size_t ends = 2 * 2; // of the lists of two groups
  reserve(on, rows * of_a_row + ends + std::max<std::size_t>(with.blocks, rows));
}

void step_rows::set(device& on, const plugin::batch& batch, std::uint32_t block_positions,
                    std::uint32_t buffer_index) {
  rows_ = batch.rows;
  draws_ = batch.draws;
  groups_.set(batch, block_positions);
  fill(batch, block_positions);
  std::uint32_t *picked = host_.data() + std::size_t{4} * rows_, row = 0;
  for (std::uint32_t i = 0; i < batch.slice_count; ++i) {
    row += batch.slices[i].rows;
    for (std::uint32_t left = batch.slices[i].draws; left > 0; --left)
      *picked++ = row - left;
  }
  append_groups();
  append_feeds(batch);
  copy_over(on, buffer_index);
}

void step_rows::set_padded(device& on, const plugin::batch& batch, std::uint32_t block_positions,
                           std::uint32_t size, std::uint32_t spare_block,
                           std::uint32_t buffer_index) {
  rows_ = draws_ = size;
  groups_.set_padded(batch, block_positions, size, spare_block);
  fill(batch, block_positions);
  std::uint32_t* slot_mapping = host_.data() + std::size_t{2} * rows_;
  std::uint32_t *tables = slot_mapping + rows_, *picked = tables + rows_;
  for (std::uint32_t row = batch.rows; row < size; ++row) {
    slot_mapping[row] = spare_block * block_positions;
    tables[row] = groups_.first_pages()[row];
  }
  std::iota(picked, picked + size, 0U);
  append_groups();
  append_feeds(batch);
  copy_over(on, buffer_index);
}

// Fills in the rows of the batch; padding rows stay 0.
void step_rows::fill(const plugin::batch& batch, std::uint32_t block_positions) {
  host_.assign(std::size_t{4} * rows_ + draws_, 0);
  std::uint32_t* tokens = host_.data();
  std::uint32_t *positions = tokens + rows_, *slot_mapping = positions + rows_,
                *tables = slot_mapping + rows_;
  for (std::uint32_t i = 0; i < batch.rows; ++i)
    tokens[i] = std::bit_cast<std::uint32_t>(batch.tokens[i]);
  std::uint32_t row = 0;
  for (std::uint32_t i = 0; i < batch.slice_count; ++i) {
    const auto& slice = batch.slices[i];
    for (std::uint32_t r = 0; r < slice.rows; ++r, ++row) {
      const std::uint32_t position = slice.position + r;
      positions[row] = position;
      slot_mapping[row] =
          slice.blocks[position / block_positions] * block_positions + position % block_positions;
      tables[row] = groups_.first_pages()[i];
    }
  }
}

// For a given number of rows and draws, the singles' lists always have the same offsets.
void step_rows::append_groups() {
  const auto append = [this](const query_group& group) {
    const std::size_t at = host_.size();
    for (const auto* list : {&group.row_begin, &group.page_begin, &group.last_page})
      host_.insert(host_.end(), list->begin(), list->end());
    return at;
  };
  singles_at_ = append(groups_.singles());
  prompts_at_ = append(groups_.prompts());
  pages_at_ = host_.size();
  host_.insert(host_.end(), groups_.pages().begin(), groups_.pages().end());
}

void step_rows::append_feeds(const plugin::batch& batch) {
  feeds_ = batch.feed_count;
  feeds_at_ = host_.size();
  for (std::uint32_t i = 0; i < feeds_; ++i)
    host_.push_back(batch.feeds[i].row);
  for (std::uint32_t i = 0; i < feeds_; ++i)
    host_.push_back(batch.feeds[i].draw);
}

void step_rows::feed(device& on, const std::int32_t* drawn) const {
  const auto* lists = on_device_.as<std::uint32_t>() + feeds_at_;
  on.kernels().feed({.count = feeds_,
                     .rows = lists,
                     .draws = lists + feeds_,
                     .drawn = drawn,
                     .tokens = on_device_.as<std::int32_t>()},
                    on.stream());
}

query_tables step_rows::on_device(const query_group& group, std::size_t at) const noexcept {
  const auto* rows = on_device_.as<std::int32_t>() + at;
  const auto queries = group.queries();
  const auto* pages = rows + queries + 1;
  return {.queries = queries,
          .rows = group.rows,
          .row_begin = rows,
          .page_begin = pages,
          .last_page = pages + queries + 1,
          .pages = blocks() + group.first_page};
}

void step_rows::reserve(device& on, std::size_t numbers) {
  ++moves_;
  room_ = 0; // in case the allocation fails
  on_device_ = {};
  on_device_ = on.take(numbers * sizeof(std::uint32_t));
  room_ = numbers;
}

void step_rows::copy_over(device& on, std::uint32_t buffer_index) {
  if (host_.size() > room_)
    reserve(on, std::bit_ceil(host_.size()));
  staged_.upload(on, buffer_index, on_device_.as<void>(), host_.data(),
                 host_.size() * sizeof(std::uint32_t));
}

} // namespace baton::gpu
