#include "runtime/gpu/device/query_groups.hpp"

namespace baton::gpu {
namespace {

void clear(query_group& group) {
  group.first_row = group.rows = group.first_page = 0;
  group.row_begin.assign(1, 0);
  group.page_begin.assign(1, 0);
  group.last_page.clear();
}

} // namespace

query_tables query_group::tables(const std::vector<std::uint32_t>& pages) const noexcept {
  return {.queries = queries(),
          .rows = rows,
          .row_begin = row_begin.data(),
          .page_begin = page_begin.data(),
          .last_page = last_page.data(),
          .pages = pages.data() + first_page};
}

void query_groups::clear() {
  gpu::clear(singles_);
  gpu::clear(prompts_);
  pages_.clear();
  first_pages_.clear();
}

void query_groups::add(query_group& group, const plugin::slice& slice,
                       std::uint32_t block_positions) {
  const std::uint32_t positions = slice.position + slice.rows;
  const std::uint32_t pages = (positions + block_positions - 1) / block_positions;
  first_pages_.push_back(static_cast<std::uint32_t>(pages_.size()));
  pages_.insert(pages_.end(), slice.blocks, slice.blocks + pages);
  group.rows += slice.rows;
  group.row_begin.push_back(static_cast<std::int32_t>(group.rows));
  group.page_begin.push_back(static_cast<std::int32_t>(pages_.size()) -
                             static_cast<std::int32_t>(group.first_page));
  group.last_page.push_back(static_cast<std::int32_t>(positions - (pages - 1) * block_positions));
}

void query_groups::set(const plugin::batch& batch, std::uint32_t block_positions) {
  clear();
  query_group* group = &singles_;
  for (std::uint32_t i = 0; i < batch.slice_count; ++i) {
    if (batch.slices[i].rows > 1 && group == &singles_) {
      group = &prompts_;
      group->first_row = singles_.rows;
      group->first_page = static_cast<std::uint32_t>(pages_.size());
    }
    add(*group, batch.slices[i], block_positions);
  }
}

void query_groups::set_padded(const plugin::batch& batch, std::uint32_t block_positions,
                              std::uint32_t size, std::uint32_t spare_block) {
  set(batch, block_positions);
  plugin::slice spare;
  spare.rows = 1;
  spare.blocks = &spare_block;
  spare.block_count = 1;
  for (std::uint32_t row = batch.rows; row < size; ++row)
    add(singles_, spare, block_positions);
}

} // namespace baton::gpu
