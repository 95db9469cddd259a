// Groups the sequences of a step for paged attention: the leading ones with one row, and all from
// the first one with several rows on. Each group is in compressed rows (CSR; paged_attention.hpp).
// The scheduler puts decoding sequences before prompts, so neighbours do not affect a prompt's
// tiles.
//
//   slices   [1 row] [1] [1] | [5 rows] [1] [200]
//            singles           prompts
#pragma once

#include "runtime/gpu/device/paged_attention.hpp"

namespace baton::gpu {

// Stored on the host.
struct query_group {
  std::uint32_t first_row = 0, rows = 0;
  std::uint32_t first_page = 0; // start of its pages in the step's pages
  std::vector<std::int32_t> row_begin, page_begin, last_page;

  std::uint32_t queries() const noexcept { return static_cast<std::uint32_t>(last_page.size()); }
  // `pages`: the step's pages.
  query_tables tables(const std::vector<std::uint32_t>& pages) const noexcept;
};

class query_groups {
public:
  // Requires: the batch is valid.
  void set(const plugin::batch& batch, std::uint32_t block_positions);
  // Adds single rows up to `size` after the batch's, at the first position of `spare_block`, which
  // belongs to no sequence. Requires: each slice has one row.
  void set_padded(const plugin::batch& batch, std::uint32_t block_positions, std::uint32_t size,
                  std::uint32_t spare_block);

  const query_group& singles() const noexcept { return singles_; }
  const query_group& prompts() const noexcept { return prompts_; }
  // The KV blocks that hold positions of the sequences, concatenated.
  const std::vector<std::uint32_t>& pages() const noexcept { return pages_; }
  // [slices, or size]: the start of each sequence in pages().
  const std::vector<std::uint32_t>& first_pages() const noexcept { return first_pages_; }

private:
  void clear();
  void add(query_group& group, const plugin::slice& slice, std::uint32_t block_positions);

  query_group singles_, prompts_;
  std::vector<std::uint32_t> pages_, first_pages_;
};

} // namespace baton::gpu
