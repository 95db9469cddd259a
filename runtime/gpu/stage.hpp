// One stage on a device: its weights, its paged KV, and a step from token ids or activation rows
// to activation rows or logits. Made by plugin.cpp, driven by one thread.
//
// A step is launched, which the device hears of and nobody waits for, and its outcome is taken when
// the device has come to its end. Where the device works by itself, two steps may be under way: the
// second one is launched behind the first, so that the device goes on while the host takes the
// first one's outcome. They take turns (turn_memory.hpp), and rows come and go beside the kernels.
//
//   a step:  --begin()--> launched --run() of it--> waited for, its outcome taken
//            --run()--> launched, waited for, its outcome taken
//            launched --run() of another--> waited for, forgotten
//
//   embed -> { norm -> projection -> rotate, write KV -> attend -> out
//              -> add, norm -> gate up -> act -> down } -> add, norm of the rows that draw -> head
//
// A rank of a group computes its heads, its rows of the ffn and of the head, and the ranks sum up
// behind out and down: as the device can (rank_sums.hpp), else in memory of the host.
#pragma once

#include "runtime/gpu/expert_layers.hpp"
#include "runtime/gpu/recorded_steps.hpp"
#include "runtime/gpu/row_slabs.hpp"
#include "runtime/gpu/stage_products.hpp"
#include "runtime/gpu/stage_weights.hpp"
#include "runtime/gpu/step_attention.hpp"
#include "runtime/gpu/step_draws.hpp"
#include "runtime/gpu/step_states.hpp"

#include <deque>
#include <optional>

namespace baton::gpu {

// How many steps may be begun ahead on that device; none where ranks look after one another.
std::uint32_t begun_max_of(const device& on, const plugin::settings& with) noexcept;

class stage {
public:
  // Takes all memory and loads the weights. Throws what device and shard say, and refused
  // (unsupported_model: a feature that the kernels do not compute).
  stage(std::shared_ptr<device> on, const plugin::decoder& model, const plugin::settings& with,
        const plugin::host& shard);

  ~stage();

  // Whether the step was launched; what fails is told by run().
  bool begin(const plugin::batch& batch) noexcept;
  bool is_busy() const noexcept { return !begun_.empty() && !begun_.front().end->is_passed(); }
  // Throws what device and shard say.
  plugin::outcome run(const plugin::batch& batch);
  // Activations that might be kept. Any thread.
  void give_back(const float* activations) noexcept { slabs_->give_back(activations); }

  device& on() noexcept { return *on_; }

private:
  struct launched { // a step that the device was asked for
    std::uint64_t number = 0, epoch = 0;
    std::uint32_t turn = 0;
    float* rows = nullptr; // that leave the stage
    bool may_be_kept = false;
    std::unique_ptr<mark> end;
  };

  bool is_next(const plugin::batch& batch) const noexcept;
  bool can_begin(const plugin::batch& batch) const;
  launched launch(const plugin::batch& batch);
  void ask_for(const plugin::batch& batch, launched& step);
  void forget_begun() noexcept;
  void settle() noexcept;
  plugin::outcome take(launched step);
  void fetch_rows(const plugin::batch& batch, launched& step);
  void take_memory();
  void warm_up();
  void take_kv();
  void make_copies(const plugin::batch& batch);
  std::uint32_t size_to_record(const plugin::batch& batch) const;
  void lay_out(const plugin::batch& batch, std::uint32_t size, std::uint32_t turn);
  void upload_rows(const plugin::batch& batch, std::uint32_t size, std::uint32_t turn);
  void compute();
  void run_layer(std::uint32_t index);
  void run_ffn(const layer_weights& layer);
  void norm(const float* added_gain, const float* gain);
  void multiply(std::uint64_t outputs, std::uint64_t columns, const void* in, const matrix& weights,
                void* out, bool is_out_f32, std::uint32_t rows);
  void sum_ranks();
  void make_logits();
  paged_kv kv_of(std::uint32_t layer) const;
  std::uint64_t kv_bytes_of_block() const noexcept; // of the keys of one layer
  std::uint32_t ffn_size() const noexcept;
  std::uint32_t rows_without_host() const;

  std::shared_ptr<device> on_;
  std::unique_ptr<rank_sums> sums_; // null: one rank, or by the host
  plugin::decoder model_;
  std::vector<plugin::layer> layers_;
  plugin::settings with_;
  plugin::host shard_;
  stage_weights weights_;
  std::optional<step_rows> rows_;
  std::optional<stage_products> products_;
  std::optional<step_attention> attention_;
  std::optional<expert_layers> experts_;   // of a mixture
  std::optional<recorded_steps> recorded_; // none: steps are not recorded
  std::optional<step_draws> draws_;        // of a last stage
  std::optional<step_states> states_;      // of a last stage, at rank 0
  bool has_added_ = false;                 // `added_` waits for the next norm
  std::uint32_t turn_ = 0;                 // of the next step that is launched
  std::deque<launched> begun_;             // whose outcomes are not asked for yet

  std::vector<buffer> keys_, values_; // [layer]
  buffer stream_, added_;             // [rows, hidden] float32
  buffer normed_;                     // [rows, hidden]
  buffer projected_, attended_;       // [rows, (heads + 2 * kv_heads) * size], [rows, heads * size]
  buffer gate_up_, gated_;            // [rows, 2 * ffn], [rows, ffn]; not of a mixture
  buffer host_rows_;                  // [rows, hidden], where the host sums up over ranks
  // [rows, hidden] of each turn: what comes in, of a stage that is not the first, and what leaves,
  // of one that is not the last.
  std::array<buffer, turns> incoming_, outgoing_;
  turn_memory staged_, unkept_;       // rows that come in; those that leave where no slab is left
  std::optional<row_slabs> slabs_;    // of a stage that is not the last
  std::unique_ptr<std::byte[]> swap_; // [swap block][layer][keys, values]
};

} // namespace baton::gpu
