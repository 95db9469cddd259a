// The rows of a step whose slices are pooled to embeddings, after the output norm and in float32,
// as the shard pools them (runtime/engine/pooling.hpp). Used by stage.cpp on the last stage; with
// several ranks only at rank 0, because all ranks have complete rows.
#pragma once

#include "runtime/gpu/stage/double_buffer.hpp"

#include <vector>

namespace baton::gpu {

class step_states {
public:
  // Keeps references to both. Allocates memory for `rows`, the maximum of a step. Throws what the
  // device throws.
  step_states(device& on, const plugin::decoder& model, std::uint32_t rows);

  // Selects the rows before the step's work. Requires: the previous step with this buffer has
  // ended. Throws what the device throws.
  void lay_out(const plugin::batch& batch, std::uint32_t buffer_index);
  bool has_rows() const noexcept { return !rows_.empty(); }
  // After the layers: normalises the rows from `stream`, [rows of the step, hidden].
  void compute(float* stream, const float* gain);
  // After compute(): enqueues the copy to the host.
  void fetch();
  // [rows that are pooled, hidden], in order; null: there are none. Valid until the buffer is used
  // again. Requires: the step with this buffer has ended.
  const float* take(std::uint32_t buffer_index) const noexcept { return found_[buffer_index]; }

private:
  device& on_;
  const plugin::decoder& model_;
  std::uint32_t buffer_index_ = 0;  // of the last step laid out
  std::vector<std::uint32_t> rows_; // of that step
  buffer picked_, states_;          // [rows], [rows, hidden] float32
  double_buffer staged_, fetched_;
  std::array<const float*, buffer_count> found_{};
};

} // namespace baton::gpu
