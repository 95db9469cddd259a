// One stage on a device: its weights, its paged KV, and a step from token ids or activation rows to
// activation rows or logits. Created by plugin.cpp, used by one thread.
//
// A step is launched without waiting, and its outcome is taken when the device has finished it. On
// an asynchronous device two steps may be in flight: the second is launched while the host
// processes the outcome of the first. They alternate between two buffers (double_buffer.hpp), and
// rows are copied concurrently with the kernels.
//
//   a step:  --begin()--> launched --run() of it--> waited for, its outcome taken
//            --run()--> launched, waited for, its outcome taken
//            launched --run() of another--> waited for, discarded
//
//   embed -> { norm -> projection -> rotate, write KV -> attend -> out
//              -> add, norm -> gate up -> act -> down } -> add, norm of the rows that draw -> head
//
// A rank of a group computes its heads and its rows of the ffn and of the head. The ranks
// all-reduce after out and down: on the device if possible (rank_sums.hpp), else in host memory.
#pragma once

#include "runtime/gpu/stage/expert_layers.hpp"
#include "runtime/gpu/stage/recorded_steps.hpp"
#include "runtime/gpu/stage/row_slabs.hpp"
#include "runtime/gpu/stage/stage_products.hpp"
#include "runtime/gpu/stage/stage_weights.hpp"
#include "runtime/gpu/stage/step_attention.hpp"
#include "runtime/gpu/stage/step_draws.hpp"
#include "runtime/gpu/stage/step_states.hpp"

#include <deque>
#include <optional>

namespace baton::gpu {

// How many steps may be begun ahead on this device; 0 for several ranks.
std::uint32_t begun_max_of(const device& on, const plugin::settings& with) noexcept;

class stage {
public:
  // Allocates all memory and loads the weights. Throws what device and shard report, and refused
  // (unsupported_model: the kernels do not support a feature).
  stage(std::shared_ptr<device> on, const plugin::decoder& model, const plugin::settings& with,
        const plugin::host& shard);

  ~stage();

  // Whether the step was launched; run() reports failures.
  bool begin(const plugin::batch& batch) noexcept;
  bool is_busy() const noexcept { return !begun_.empty() && !begun_.front().end->is_passed(); }
  // Throws what device and shard report.
  plugin::outcome run(const plugin::batch& batch);
  // For activations that may_be_kept announced. Thread-safe.
  void give_back(const float* activations) noexcept { slabs_->give_back(activations); }

  device& on() noexcept { return *on_; }

private:
  struct launched { // a step in flight
    std::uint64_t number = 0, epoch = 0;
    std::uint32_t buffer_index = 0;
    float* rows = nullptr; // outgoing rows
    bool may_be_kept = false;
    std::unique_ptr<mark> end;
  };

  bool is_next(const plugin::batch& batch) const noexcept;
  bool can_begin(const plugin::batch& batch) const;
  launched launch(const plugin::batch& batch);
  void enqueue(const plugin::batch& batch, launched& step);
  void forget_begun() noexcept;
  void wait_for_device() noexcept;
  plugin::outcome take(launched step);
  void fetch_rows(const plugin::batch& batch, launched& step);
  void take_memory();
  void warm_up();
  void take_kv();
  void make_copies(const plugin::batch& batch);
  std::uint32_t size_to_record(const plugin::batch& batch) const;
  void lay_out(const plugin::batch& batch, std::uint32_t size, std::uint32_t buffer_index);
  void upload_rows(const plugin::batch& batch, std::uint32_t size, std::uint32_t buffer_index);
  void compute();
  void run_layer(std::uint32_t index);
  void rotate(std::uint32_t index);
  void gate_and_up(const ffn_weights& ffn, std::uint32_t width);
  void run_shared(const layer_weights& layer);
  void norm(const float* added_gain, const float* gain, bool copies = false,
            const float* added_bias = nullptr);
  void multiply(std::uint64_t outputs, std::uint64_t columns, const void* in, const matrix& weights,
                void* out, bool is_out_f32, std::uint32_t rows);
  void sum_ranks();
  void make_logits();
  paged_kv kv_of(std::uint32_t layer) const;
  std::uint64_t kv_bytes_of_block() const noexcept; // per layer, for the keys
  std::uint32_t rows_without_host() const;

  std::shared_ptr<device> on_;
  std::unique_ptr<rank_sums> sums_; // null: one rank, or summed by the host
  plugin::decoder model_;
  std::vector<plugin::layer> layers_;
  plugin::settings with_;
  plugin::host shard_;
  stage_weights weights_;
  std::optional<step_rows> rows_;
  std::optional<stage_products> products_;
  std::optional<step_attention> attention_;
  std::optional<expert_layers> experts_;   // of a mixture
  std::optional<recorded_steps> recorded_; // empty: steps are not recorded
  std::optional<step_draws> draws_;        // of a last stage
  std::optional<step_states> states_;      // of a last stage, at rank 0
  bool has_added_ = false;                 // `added_` is pending for the next norm
  std::uint32_t buffer_index_ = 0;         // of the next step to launch
  std::deque<launched> begun_;             // steps whose outcomes have not been requested

  std::vector<buffer> keys_, values_; // [layer]
  buffer stream_, added_;             // [rows, hidden] float32
  buffer normed_;                     // [rows, hidden]
  buffer projected_, attended_;       // [rows, (heads + 2 * kv_heads) * size], [rows, heads * size]
  buffer gate_up_, gated_;            // [rows, 2 * ffn], [rows, ffn]; not of experts
  buffer shared_out_, shared_scores_; // [rows, hidden], [rows]; float32
  buffer host_rows_;                  // [rows, hidden], if the host sums over ranks
  // [rows, hidden] per buffer index: incoming rows of a stage that is not the first, and outgoing
  // rows of one that is not the last.
  std::array<buffer, buffer_count> incoming_, outgoing_;
  double_buffer staged_, unkept_;     // incoming rows; outgoing rows without a free slab
  std::optional<row_slabs> slabs_;    // for a stage that is not the last
  std::unique_ptr<std::byte[]> swap_; // [swap block][layer][keys, values]
};

} // namespace baton::gpu
