// The part of a model that a stage holds, or a shard of a stage shared by several, and its cost in
// bytes. Pure: the planner calls it for a whole pipeline, a shard for its own part.
#pragma once

#include "runtime/model/description.hpp"

namespace baton::model {

struct layer_range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool has_embedding = false; // stage 0: turns token ids into rows
  bool has_head = false;      // last stage: output norm, logits

  std::uint32_t end() const noexcept { return first + count; }
  friend bool operator==(const layer_range&, const layer_range&) = default;
};

// The decode load that a cut is optimised for. A step's cost is about the bytes it reads: a layer's
// weights once per micro-batch plus the KV of its rows, the head's weights once. For a 30-layer
// model with a 28 M parameter head, the default gives the best measured cut (17 + 13). Without the
// KV term the head would count as 13 layers; counting only layers, as none.
struct decode_load {
  std::uint32_t rows = 32;       // of one micro-batch
  std::uint32_t positions = 256; // in the sequence of each row
  std::uint32_t kv_element_bytes = 2;
};

// Relative speeds beyond these are measurement errors: no two devices differ by 10^12.
inline constexpr double stage_speed_min = 1e-6;
inline constexpr double stage_speed_max = 1e6;

// Cuts the layers into `stage_count` consecutive ranges, so that the slowest stage is as fast as
// possible and the others are as even as possible. `speeds` (relative, one per stage, empty: all
// equal) gives a slower device a smaller part. Every stage holds at least one layer. Errors:
// does_not_fit (more stages than layers), invalid_value (no stage, wrong number of speeds, a speed
// outside [stage_speed_min, stage_speed_max]). Requires: the description comes from describe(), or
// has layer_bytes for every layer.
result<std::vector<layer_range>> partition(const description& model, std::uint32_t stage_count,
                                           std::span<const double> speeds = {},
                                           const decode_load& load = {});

// Bytes that a decode step of `rows` rows, each with the positions of `load`, reads in the range.
// Estimates the step's time relative to other ranges.
double step_cost(const description& model, const layer_range& range, std::uint32_t rows,
                 const decode_load& load = {});

// The whole model in one stage.
layer_range whole(const description& model) noexcept;

// Names of the tensors that the stage reads, without duplicates (even with tied embeddings).
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

// A rank's part of every layer of its stage, and of the head. Every rank holds norms, embeddings
// and routers in full. Slices of consecutive ranks are adjacent and may be uneven.
struct tensor_slice {
  std::uint32_t rank = 0, width = 1;
  index_range heads;      // query heads: rows of q, columns of output
  index_range kv_heads;   // used by these heads: rows of k and v; the first may be shared. A layer
                          // with its own number of KV heads has kv_heads_of()
  index_range ffn;        // rows of gate and up, columns of down; of every expert in a mixture
  index_range vocabulary; // rows of the head

  friend bool operator==(const tensor_slice&, const tensor_slice&) = default;
};

// Where heads that share keys and values may be cut. A KV head whose query heads are divided among
// ranks is held and computed by each of them. Not every engine supports such parts.
enum class head_cut { between_kv_heads, anywhere };

// Maps each KV head of a rank to its query heads, both in the rank's own numbering.
class head_map {
public:
  // `model` is the whole model, `slice` the rank's part of it.
  head_map(const description& model, const tensor_slice& slice) noexcept;
  // The same for a layer with its own number of KV heads.
  head_map(const description& model, const tensor_slice& slice, std::uint32_t layer) noexcept;

  index_range of(std::uint32_t kv_head) const noexcept;

private:
  std::uint32_t group_, before_, count_; // `before_`: earlier ranks' heads of its first KV head
};

// The KV heads that these query heads use; in a layer, which may have its own number of them.
index_range kv_heads_of(const description& model, const index_range& heads) noexcept;
index_range kv_heads_of(const description& model, const index_range& heads,
                        std::uint32_t layer) noexcept;

// From the types of the file's weights, for all stages. Errors: bad_model_file (a missing tensor).
result<slice_blocks> slice_blocks_of(const description& model, const model_file& file);

// Slices for the ranks of a group, in order. The slowest rank is as fast as possible in each kind
// of tensor separately, since the ranks synchronise after each. `speeds` as in partition(). Errors:
// does_not_fit (names what cannot be cut into that many parts), invalid_value (no rank, wrong
// number of speeds, a speed out of range). Norms of whole rows of queries are not cut. With
// head_cut::anywhere, cuts still fall between KV heads unless another cut is faster.
result<std::vector<tensor_slice>> split(const description& model, std::uint32_t width,
                                        std::span<const double> speeds = {},
                                        const slice_blocks& blocks = {},
                                        head_cut cut = head_cut::anywhere);

// Bytes of a stage's weights that the rank of the slice holds, as stored in the file. Norms and
// routers are counted as if sliced, which is less than 1 % of a layer.
std::uint64_t rank_bytes(const description& model, const layer_range& range,
                         const tensor_slice& slice);

// A rank's rows of an ffn with `size` rows, if it has `part` of another ffn with `whole` rows:
// about the same share, in whole blocks. For the dense layers and shared experts of a mixture.
index_range part_beside(const index_range& part, std::uint32_t whole, std::uint32_t size,
                        std::uint32_t block) noexcept;

// The model as computed by the rank of the slice: fewer heads, a narrower ffn, the rest unchanged.
description sliced(const description& model, const tensor_slice& slice);

} // namespace baton::model
