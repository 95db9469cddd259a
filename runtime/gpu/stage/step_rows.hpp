// The rows of a step as the kernels read them: one array of integers on the device, filled on the
// host and copied once per step.
#pragma once

#include "runtime/gpu/device/device.hpp"
#include "runtime/gpu/device/query_groups.hpp"
#include "runtime/gpu/stage/double_buffer.hpp"

namespace baton::gpu {

class step_rows {
public:
  // Allocates memory for the expected steps, with one page per block. Sequences that share blocks
  // may need more, which is allocated on demand.
  step_rows(device& on, const plugin::settings& with);

  // Lays the batch out and enqueues its copy. Requires: the batch is valid, and the previous step
  // with this buffer has ended.
  void set(device& on, const plugin::batch& batch, std::uint32_t block_positions,
           std::uint32_t buffer_index);
  // The same with padding rows up to `size`: token 0 at the first position of `spare_block`, which
  // belongs to no sequence. Every row is picked. Requires: each slice has one row.
  void set_padded(device& on, const plugin::batch& batch, std::uint32_t block_positions,
                  std::uint32_t size, std::uint32_t spare_block, std::uint32_t buffer_index);

  std::uint32_t rows() const noexcept { return rows_; }
  std::uint32_t draws() const noexcept { return draws_; }
  // How often the device memory has moved.
  std::uint64_t moves() const noexcept { return moves_; }
  // On the device: [rows] each, except `picked` [draws] and `blocks`.
  const std::int32_t* tokens() const noexcept { return on_device_.as<std::int32_t>(); }
  const std::uint32_t* positions() const noexcept { return part(1); }
  const std::uint32_t* slot_mapping() const noexcept { return part(2); } // slots in the KV memory
  const std::uint32_t* tables() const noexcept { return part(3); }       // offsets in `blocks`
  const std::uint32_t* picked() const noexcept { return part(4); }       // rows that draw
  const std::uint32_t* blocks() const noexcept {
    return on_device_.as<std::uint32_t>() + pages_at_;
  }
  // Copies the tokens drawn by the previous batch to the rows that this batch feeds from it, on the
  // device. Requires: there are such rows.
  void feed(device& on, const std::int32_t* drawn) const;
  // The sequences in two groups: on the host, and on the device.
  const query_groups& groups() const noexcept { return groups_; }
  query_tables singles() const noexcept { return on_device(groups_.singles(), singles_at_); }
  query_tables prompts() const noexcept { return on_device(groups_.prompts(), prompts_at_); }

private:
  void fill(const plugin::batch& batch, std::uint32_t block_positions);
  void append_groups();
  void append_feeds(const plugin::batch& batch);
  void reserve(device& on, std::size_t numbers);
  void copy_over(device& on, std::uint32_t buffer_index);
  query_tables on_device(const query_group& group, std::size_t at) const noexcept;
  const std::uint32_t* part(std::size_t which) const noexcept {
    return on_device_.as<std::uint32_t>() + which * rows_;
  }

  std::uint32_t rows_ = 0, draws_ = 0;
  query_groups groups_;
  std::vector<std::uint32_t> host_;
  std::size_t singles_at_ = 0, prompts_at_ = 0, pages_at_ = 0, feeds_at_ = 0; // in `host_`
  std::uint32_t feeds_ = 0;
  double_buffer staged_;
  buffer on_device_;
  std::size_t room_ = 0; // capacity in numbers
  std::uint64_t moves_ = 0;
};

} // namespace baton::gpu
