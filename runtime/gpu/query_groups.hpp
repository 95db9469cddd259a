// The sequences of a step as paged attention wants them: those of one row that lead it, and all
// from the first one of several rows on, each group as compressed rows (CSR; paged_attention.hpp).
// The scheduler has sequences that decode before prompts, so that a prompt is not cut into small
// tiles for the sake of the company it has.
//
//   slices   [1 row] [1] [1] | [5 rows] [1] [200]
//            singles           prompts
#pragma once

#include "runtime/gpu/paged_attention.hpp"

namespace baton::gpu {

// On the host.
struct query_group {
  std::uint32_t first_row = 0, rows = 0;
  std::uint32_t first_page = 0; // of its pages in those of the step
  std::vector<std::int32_t> row_begin, page_begin, last_page;

  std::uint32_t queries() const noexcept { return static_cast<std::uint32_t>(last_page.size()); }
  // `pages`: those of the step.
  query_tables tables(const std::vector<std::uint32_t>& pages) const noexcept;
};

class query_groups {
public:
  // Requires: the batch is valid.
  void set(const plugin::batch& batch, std::uint32_t block_positions);
  // With single rows up to `size` behind those of the batch, at the first position of a block that
  // is no sequence's. Requires: each slice has one row.
  void set_padded(const plugin::batch& batch, std::uint32_t block_positions, std::uint32_t size,
                  std::uint32_t spare_block);

  const query_group& singles() const noexcept { return singles_; }
  const query_group& prompts() const noexcept { return prompts_; }
  // KV blocks as far as positions of the sequences lie in them, one sequence behind the other.
  const std::vector<std::uint32_t>& pages() const noexcept { return pages_; }
  // [slices, or size]: where in pages() each begins.
  const std::vector<std::uint32_t>& first_pages() const noexcept { return first_pages_; }

private:
  void clear();
  void add(query_group& group, const plugin::slice& slice, std::uint32_t block_positions);

  query_group singles_, prompts_;
  std::vector<std::uint32_t> pages_, first_pages_;
};

} // namespace baton::gpu
