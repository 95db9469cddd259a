// One stage on a device: its weights, its paged KV, and a step from token ids or activation rows
// to activation rows or logits. Made by plugin.cpp, driven by one thread.
//
//   embed -> { norm -> projection -> rotate, write KV -> attend -> out
//              -> add, norm -> gate up -> act -> down } -> add, norm of the rows that draw -> head
//
// A rank of a group computes its heads, its rows of the ffn and of the head, and the ranks sum up
// behind out and down: as the device can (rank_sums.hpp), else in memory of the host.
#pragma once

#include "runtime/gpu/packed_products.hpp"
#include "runtime/gpu/recorded_steps.hpp"
#include "runtime/gpu/stage_weights.hpp"
#include "runtime/gpu/step_rows.hpp"

#include <optional>

namespace baton::gpu {

class stage {
public:
  // Takes all memory and loads the weights. Throws what device and shard say, and refused
  // (unsupported_model: a feature that the kernels do not compute).
  stage(std::unique_ptr<device> on, const plugin::decoder& model, const plugin::settings& with,
        const plugin::host& shard);

  // Throws what device and shard say.
  plugin::outcome run(const plugin::batch& batch);

  const device& on() const noexcept { return *on_; }

private:
  struct expert_rows { // of a step, of one expert
    std::vector<std::uint32_t> rows;
    std::vector<float> weights;
  };
  void take_memory();
  void make_copies(const plugin::batch& batch);
  std::uint32_t size_to_record(const plugin::batch& batch) const;
  void lay_out(const plugin::batch& batch, std::uint32_t size);
  void compute();
  void run_layer(std::uint32_t index);
  void run_ffn(const layer_weights& layer);
  void run_experts(const layer_weights& layer);
  void run_expert(const ffn_weights& expert, const expert_rows& own);
  void norm(const float* added_gain, const float* gain);
  void multiply(std::uint64_t outputs, std::uint64_t columns, const void* in, const matrix& weights,
                void* out, bool is_out_f32, std::uint32_t rows);
  void sum_ranks();
  void reserve_logits(std::uint32_t draws);
  void make_logits();
  float* gathered_logits(std::uint32_t draws);
  const std::int32_t* draw_tokens(const plugin::draw_lists& how, std::uint32_t draws);
  paged_kv kv_of(std::uint32_t layer) const;
  std::uint64_t kv_bytes_of_block() const noexcept; // of the keys of one layer
  std::uint32_t ffn_size() const noexcept;

  std::unique_ptr<device> on_;
  std::unique_ptr<rank_sums> sums_; // null: one rank, or by the host
  plugin::decoder model_;
  std::vector<plugin::layer> layers_;
  plugin::settings with_;
  plugin::host shard_;
  stage_weights weights_;
  step_rows rows_;
  std::optional<packed_products> products_;
  std::optional<recorded_steps> recorded_; // none: steps are not recorded
  bool has_added_ = false;                 // `added_` waits for the next norm

  std::vector<buffer> keys_, values_; // [layer]
  buffer stream_, added_;             // [rows, hidden] float32
  buffer normed_;                     // [rows, hidden]
  buffer attended_parts_;             // attend_args::parts, of the step that needs most
  buffer projected_, attended_;       // [rows, (heads + 2 * kv_heads) * size], [rows, heads * size]
  buffer gate_up_, gated_;            // [rows, 2 * ffn], [rows, ffn]
  buffer scores_, chosen_, chosen_weights_; // of a mixture: [rows, experts], [rows, used]
  buffer expert_in_, expert_out_;           // [rows, hidden]; the second float32
  buffer picked_, picked_weights_;          // [rows]
  buffer logits_;                           // [draws, logits of this rank]
  std::size_t logits_room_ = 0;             // draws that it holds, as those below
  std::uint64_t logits_moves_ = 0;
  buffer draw_weights_, draw_tokens_, draw_sums_, draw_buckets_, drawn_;
  buffer lists_;               // of draw_lists, one behind the other
  std::size_t lists_room_ = 0; // bytes
  std::vector<std::byte> host_lists_;
  std::vector<std::int32_t> host_drawn_;
  buffer host_rows_;               // [rows, hidden]
  std::vector<float> host_logits_; // [draws, vocabulary]
  std::vector<float> own_logits_;  // [draws, logits of this rank], where there are ranks
  std::vector<float> host_weights_;
  std::vector<std::uint32_t> host_chosen_;
  std::vector<expert_rows> by_expert_;
  std::unique_ptr<std::byte[]> swap_; // [swap block][layer][keys, values]
};

} // namespace baton::gpu
