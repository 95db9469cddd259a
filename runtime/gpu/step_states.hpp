// The rows of a step whose slices are pooled to embeddings, behind the output norm and in float32:
// what the shard pools (runtime/engine/pooling.hpp). Driven by stage.cpp on the last stage; where
// ranks share it, at rank 0: all of them have the rows whole.
#pragma once

#include "runtime/gpu/device.hpp"

#include <vector>

namespace baton::gpu {

class step_states {
public:
  // Keeps references to both. Takes memory for `rows` of a step, the most that it can have. Throws
  // what the device throws.
  step_states(device& on, const plugin::decoder& model, std::uint32_t rows);

  // Which rows. Before the step's work: a copy to a device may wait for all
  // that it was given. Throws what the device throws.
  void lay_out(const plugin::batch& batch);
  bool has_rows() const noexcept { return !rows_.empty(); }
  // Behind the layers: norms them from `stream`, [rows of the step, hidden].
  void compute(float* stream, const float* gain);
  // [rows that are pooled, hidden], in their order; null: there are none. Waits for the device.
  // Valid until the next lay_out().
  const float* take();

private:
  device& on_;
  const plugin::decoder& model_;
  std::vector<std::uint32_t> rows_; // of the step
  buffer picked_, states_;          // [rows], [rows, hidden] float32
  std::vector<float> host_states_;
};

} // namespace baton::gpu
