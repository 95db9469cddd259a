// Which part of a model a stage holds, and what that costs in bytes. Pure: called by the planner
// for a whole pipeline and by a shard for its own part.
#pragma once

#include "runtime/model/description.hpp"

namespace baton::model {

struct layer_range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool embeds = false; // stage 0: turns token ids into rows
  bool heads = false;  // last stage: output norm, logits

  std::uint32_t end() const noexcept { return first + count; }
  friend bool operator==(const layer_range&, const layer_range&) = default;
};

// The decode load that a cut is made for. A step's cost is about the bytes it reads: a layer's
// weights once per micro-batch plus the KV of its rows, the head's weights once. For a
// 30-layer model with a 28 M parameter head the default gives the cut that measured best (17 + 13):
// without the KV term the head would count as 13 layers, by layers alone as none.
struct decode_load {
  std::uint32_t rows = 32;       // of one micro-batch
  std::uint32_t positions = 256; // held by each row's sequence
  std::uint32_t kv_element_bytes = 2;
};

// Relative speeds beyond these are mistakes of measurement: no two devices differ by 10^12.
inline constexpr double stage_speed_min = 1e-6;
inline constexpr double stage_speed_max = 1e6;

// Cuts the layers into `stage_count` consecutive ranges, so that the slowest stage is as fast as
// possible and the others are as even as possible. `speeds` (relative, one per stage, empty: all
// equal) makes a slower device's part smaller. Every stage holds at least one layer.
// Errors: does_not_fit (more stages than layers), invalid_value (no stage, wrong number of speeds,
// a speed outside of [stage_speed_min, stage_speed_max]).
// Requires: the description came from describe(), or has layer_bytes for every layer.
result<std::vector<layer_range>> partition(const description& model, std::uint32_t stage_count,
                                           std::span<const double> speeds = {},
                                           const decode_load& load = {});

// The whole model in one stage.
layer_range whole(const description& model) noexcept;

// Names of the tensors that the stage reads, each once (tied embeddings in a single stage, too).
std::vector<std::string> tensors_of(const description& model, const layer_range& range);

// Bytes of these tensors in the file. Errors: bad_model_file (a tensor is not in this file).
result<std::uint64_t> stage_bytes(const description& model, const model_file& file,
                                  const layer_range& range);

} // namespace baton::model
