// Which part of a model a stage holds, and a shard of a stage that several share; what that costs
// in bytes. Pure: called by the planner for a whole pipeline and by a shard for its own part.
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

// Bytes that a decode step of so many rows, each with the positions of `load`, reads in that range:
// what its time goes by, beside that of another range.
double step_cost(const description& model, const layer_range& range, std::uint32_t rows,
                 const decode_load& load = {});

// The whole model in one stage.
layer_range whole(const description& model) noexcept;

// Names of the tensors that the stage reads, each once (tied embeddings in a single stage, too).
std::vector<std::string> tensors_of(const description& model, const layer_range& range);

// Bytes of these tensors in the file. Errors: bad_model_file (a tensor is not in this file).
result<std::uint64_t> stage_bytes(const description& model, const model_file& file,
                                  const layer_range& range);

// -- Tensor parallelism: the shards of a stage are the ranks of a group --

// Consecutive heads, rows or columns.
struct index_range {
  std::uint32_t first = 0, count = 0;

  std::uint32_t end() const noexcept { return first + count; }
  friend bool operator==(const index_range&, const index_range&) = default;
};

// What a rank holds of every layer of its stage, and of the head. Norms, embeddings and routers are
// every rank's. Slices of the ranks follow one another and may be uneven.
struct tensor_slice {
  std::uint32_t rank = 0, width = 1;
  index_range heads;      // that ask: rows of q, columns of output
  index_range kv_heads;   // that they ask: rows of k and v; the first may be the rank before's, too
  index_range ffn;        // rows of gate and up, columns of down; in a mixture of every expert
  index_range vocabulary; // rows of the head

  friend bool operator==(const tensor_slice&, const tensor_slice&) = default;
};

// Where heads that share keys and values may be cut: a KV head whose query heads several ranks have
// is held and computed by each of them. Not every engine knows such parts.
enum class head_cut { between_kv_heads, anywhere };

// Of a KV head, the query heads that a rank has, as it counts both.
class head_map {
public:
  // Of the whole model, and of that part of it.
  head_map(const description& model, const tensor_slice& slice) noexcept;

  index_range of(std::uint32_t kv_head) const noexcept;

private:
  std::uint32_t group_, before_, count_; // `before_`: of its first KV head, those of other ranks
};

// The KV heads that these query heads ask.
index_range kv_heads_of(const description& model, const index_range& heads) noexcept;

// Of these weights, the same for all stages. Errors: bad_model_file (a tensor is not in this file).
result<slice_blocks> slice_blocks_of(const description& model, const model_file& file);

// Slices for the ranks of a group, in their order: the slowest rank as fast as possible in each
// kind of tensor by itself, since the ranks wait for one another behind each. `speeds` as in
// partition(). Errors: does_not_fit (names what cannot be cut into so many parts), invalid_value
// (no rank, wrong number of speeds, a speed out of range).
// `cut`: anywhere still means between KV heads where no rank has less to do by another cut.
result<std::vector<tensor_slice>> split(const description& model, std::uint32_t width,
                                        std::span<const double> speeds = {},
                                        const slice_blocks& blocks = {},
                                        head_cut cut = head_cut::anywhere);

// Bytes of the weights that the rank of that slice holds of a stage's layers, as stored in the
// file; norms and routers are counted as if they were sliced, which is less than 1 % of a layer.
std::uint64_t rank_bytes(const description& model, const layer_range& range,
                         const tensor_slice& slice);

// The model as the rank of that slice computes it: fewer heads, a narrower ffn; all else as it is.
description sliced(const description& model, const tensor_slice& slice);

} // namespace baton::model
