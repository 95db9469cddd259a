// The rows of a step whose slices are pooled to embeddings, behind the output norm and in float32:
// what the shard pools (runtime/engine/pooling.hpp). Driven by stage.cpp on the last stage; where
// ranks share it, at rank 0: all of them have the rows whole.
#pragma once

#include "runtime/gpu/turn_memory.hpp"

#include <vector>

namespace baton::gpu {

class step_states {
public:
  // Keeps references to both. Takes memory for `rows` of a step, the most that it can have. Throws
  // what the device throws.
  step_states(device& on, const plugin::decoder& model, std::uint32_t rows);

  // Which rows, before the step's work. Requires: the step that had the turn before has ended.
  // Throws what the device throws.
  void lay_out(const plugin::batch& batch, std::uint32_t turn);
  bool has_rows() const noexcept { return !rows_.empty(); }
  // Behind the layers: norms them from `stream`, [rows of the step, hidden].
  void compute(float* stream, const float* gain);
  // Behind that: asks for them.
  void fetch();
  // [rows that are pooled, hidden], in their order; null: there are none. Until the turn comes
  // again. Requires: the step of that turn has ended.
  const float* take(std::uint32_t turn) const noexcept { return found_[turn]; }

private:
  device& on_;
  const plugin::decoder& model_;
  std::uint32_t turn_ = 0;          // of the step that was laid out last
  std::vector<std::uint32_t> rows_; // of it
  buffer picked_, states_;          // [rows], [rows, hidden] float32
  turn_memory staged_, fetched_;
  std::array<const float*, turns> found_{};
};

} // namespace baton::gpu
