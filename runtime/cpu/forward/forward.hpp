// One step of a stage: from token ids or activation rows, through the layers, to activation rows or
// logits. Every member of the team runs the same parts in the same order, with a barrier after
// each. A part is divided by rows, by panels of outputs or by heads, never within a sum.
//
//   embed → { norm → q k v → rotate, append to KV → attend → out → norm → gate up → down }
//         → norm of the rows that sample → head
//
// In a recurrent layer the middle parts are: mixed gate strength decay → convolve → scan the rows
// of each sequence → norm, gate → out (forward_recurrent.cpp).
//
// With latent attention they are: latents → queries → rotate, append the latent → queries onto
// latents → attend → values → out (forward_latent.cpp).
//
// Keys and values of a layer may be those of an earlier one, and its embeddings may follow it
// (forward_inputs.cpp).
//
// In a mixture the last two parts are: router scores → choice → rows by expert → gate up → down.
// Features of a family (biases, norms of heads or before the residual, scales, windows, soft caps)
// run inside these parts, as the description or the layer's weights specify. A parallel ffn runs
// gate up after q k v.
//
// A rank of a group does the same with its heads and its rows of the ffn and of the head. Its
// contribution to the residual is a partial sum: the ranks all-reduce after out and down, and rank
// 0 gathers the logits after the head. Everything else is local to a rank.
#pragma once

#include "runtime/collective/collective.hpp"
#include "runtime/cpu/forward/rope_table.hpp"
#include "runtime/cpu/forward/thread_team.hpp"
#include "runtime/cpu/forward/weights.hpp"
#include "runtime/cpu/kernels/kernels.hpp"
#include "runtime/cpu/memory/kv_memory.hpp"
#include "runtime/cpu/memory/step_memory.hpp"
#include "schema/messages.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

namespace baton::cpu {

// The inputs of a forward pass; all of them outlive it.
struct forward_parts {
  const model::description& model;    // as this rank computes it
  std::vector<model::head_map> heads; // [layer] of the model
  const model::layer_range& range;
  const stage_weights& weights;
  const kernels& table;
  activation_width width;
  kv_memory& kv;
  rope_tables& ropes;
  step_memory& memory;
  thread_team& team;
  collective::collective* group = nullptr;         // null: the stage has one rank
  const std::vector<std::size_t>& logits_of_ranks; // [rank], if there is a group
};

class forward {
public:
  explicit forward(const forward_parts& parts, std::uint32_t max_model_len);

  // Runs the batch. Results are in memory.hidden, or in rank 0's memory.logits (a row per draw, in
  // order). Requires: the batch is valid for this stage. Errors: those of the group's calls.
  result<void> run(const micro_batch& batch, std::span<const float> activations);

private:
  struct row {
    const slice* owner = nullptr;
    std::uint32_t position = 0;
  };
  // Consecutive rows of a slice whose positions lie in one chunk.
  struct attention_item {
    std::uint32_t first_row = 0;
    std::uint32_t rows = 0;
  };
  struct sequence_rows { // of a slice
    const slice* of = nullptr;
    std::size_t first_row = 0;
  };
  struct share {
    std::size_t begin = 0, end = 0;
  };

  void plan(const micro_batch& batch);
  void plan_parts();
  bool is_divided() const noexcept { return row_borders_.size() > 2; }
  void plan_attention(const slice& s, std::uint32_t first_row);
  void run_member(unsigned member, const micro_batch& batch, std::span<const float> activations);
  void run_layer(unsigned member, std::uint32_t layer);
  void run_attention(unsigned member, std::uint32_t layer);
  void run_latent(unsigned member, std::uint32_t layer);
  void project_queries(unsigned member, const latent_weights& weights);
  void finish_queries(share rows, std::uint32_t layer);
  void append_latents(share rows, std::uint32_t layer);
  void multiply_heads(unsigned member, const std::vector<packed_matrix>& matrices,
                      const input_rows& input, std::size_t apart, const float_rows& out,
                      std::size_t out_apart) const;
  void quantise_heads(share rows, const input_rows& of, std::size_t apart, std::size_t width);

  void embed(share rows, const micro_batch& batch, std::span<const float> activations);
  void embed_for_layers(unsigned member, const micro_batch& batch);
  void finish_layer(unsigned member, std::uint32_t layer);
  void gate_layer_inputs(unsigned member, std::uint32_t layer);
  struct forms { // of rows that products read
    bool values = false, records = false;
  };
  static forms forms_for(std::initializer_list<const packed_matrix*> matrices);
  forms forms_of_mixer(std::uint32_t layer) const;
  void norm(const float* x, const float* gain, float* out) const;
  void normalise(unsigned member, const float* gain, forms needed);
  void project(unsigned member, const packed_matrix& matrix, const input_rows& input,
               const float_rows& out) const;
  void project(unsigned member, const packed_matrix& matrix, const float_rows& out) const;
  void project_attention(unsigned member, const layer_weights& layer) const;
  void append(share rows, std::uint32_t layer, share kv_heads);
  void normalise_projections(share rows, std::uint32_t layer);
  void rotate(float* head, const rope_table* rope, std::uint32_t position) const;
  void finish_heads(float* heads, std::size_t count, std::size_t size, const float* gain,
                    const rope_table* rope, std::uint32_t position) const;
  std::byte* page_of(std::uint32_t layer, std::uint32_t block, std::uint32_t kv_head) const;
  model::layer_heads heads_of(std::uint32_t layer) const noexcept {
    return p_.model.heads_of(p_.range.first + layer);
  }
  float query_scale(std::uint32_t layer, std::uint32_t position) const noexcept;
  void attend(unsigned member, std::uint32_t layer);
  void attend_item(unsigned member, std::uint32_t layer, const attention_item& item,
                   std::uint32_t kv_head, share columns, const std::byte* next_page);
  std::size_t parts_of_kv_head() const noexcept;
  const std::byte* first_page(std::uint32_t layer, const attention_item& item,
                              std::uint32_t kv_head) const;
  void prefetch_append_lines(std::uint32_t layer, const attention_item& item,
                             std::uint32_t kv_head) const;
  std::uint32_t window_of(std::uint32_t layer) const noexcept;
  bool is_recurrent(std::uint32_t layer) const noexcept {
    return p_.model.layers[p_.range.first + layer].mixer != model::mixer_kind::attention;
  }
  // Among the stage's layers with the same kind of memory.
  std::uint32_t memory_index(std::uint32_t layer) const noexcept { return memory_indices_[layer]; }
  void run_recurrent(unsigned member, std::uint32_t layer);
  void project_recurrent(unsigned member, const recurrent_weights& weights) const;
  void gate_inputs(share rows) const;
  void convolve_rows(share rows, const recurrent_weights& weights, std::uint32_t state_layer);
  void weigh_row(std::size_t r, const recurrent_weights& weights) const;
  void keep_rows(const sequence_rows& sequence, std::uint32_t state_layer);
  void scan(unsigned member, std::uint32_t state_layer);
  void finish_scanned(share rows, const layer_weights& layer);
  void finish_states_of(std::size_t r, const recurrent_weights& weights) const;
  const float* row_before(const sequence_rows& sequence, std::size_t at, std::size_t back,
                          std::uint32_t state_layer) const;
  bool quantises_within(std::uint32_t layer) const noexcept;
  share columns_of(std::uint32_t layer, std::uint32_t kv_head) const noexcept;
  void quantise_attended(share rows, std::size_t from, std::size_t width);
  struct added_change { // of rows before they are added to the residual; null: none
    const float *bias = nullptr, *gain = nullptr;
    const float* gain_with_beside = nullptr; // of the sum with `beside`
  };
  void add_to_residual(unsigned member, const packed_matrix& matrix, const input_rows& input,
                       const added_change& change);
  bool adds_aside(const added_change& change) const noexcept;
  void add_changed(unsigned member, const added_change& change);
  result<void> reduce_over_ranks() const;
  result<void> all_gather_parts(std::byte* rows, std::size_t row_bytes) const;
  result<void> all_gather_parts(const float_rows& rows) const;
  std::vector<std::size_t> borders_in(std::size_t row_units) const;
  // Member 0 executes the call between two barriers. All members see its failure.
  template <class Call>
  void synchronise(unsigned member, Call call) {
    p_.team.barrier();
    if (member == 0)
      if (auto ok = call(); !ok)
        failure_ = ok.error();
    p_.team.barrier();
  }
  result<void> gather_logits();
  void gate_and_up(unsigned member, const ffn_weights& ffn, const input_rows& input,
                   std::size_t rows, share panels, const input_rows& out);
  void gate_and_up_of_layer(unsigned member, const ffn_weights& ffn);
  void run_experts(unsigned member, const layer_weights& layer);
  void run_ffn_beside(unsigned member, const layer_weights& layer);
  auto activation() const noexcept {
    const auto kind = p_.model.activation;
    return kind == model::activation_kind::silu   ? p_.table.silu_multiply
           : kind == model::activation_kind::gelu ? p_.table.gelu_multiply
                                                  : p_.table.clamped_silu_multiply;
  }
  void choose(unsigned member, const layer_weights& layer);
  void weigh(float* scores, std::span<expert_choice> chosen) const;
  void sigmoids(float* scores, std::size_t count) const;
  void softmax(float* scores, std::size_t count) const;
  float exponentials(float* scores, std::size_t count, float best) const;
  void weigh_values(const float* values, std::span<expert_choice> chosen) const;
  void weigh_shared(unsigned member, const layer_weights& layer) const;
  void gate_and_up_of_shared(unsigned member, const layer_weights& layer);
  void add_shared(unsigned member, const layer_weights& layer, const float_rows& to);
  void gather(unsigned member, bool needs_values, bool needs_records);
  void gate_and_up_of_experts(unsigned member, const layer_weights& layer);
  void add_experts_to_residual(unsigned member, const layer_weights& layer);
  void head(unsigned member);

  // Calls `work` with pieces whose products fit the cache and that are large enough to amortise the
  // preparation of their rows.
  template <class Work>
  static void in_pieces(std::size_t rows, share panels, Work work) {
    for (std::size_t panel = panels.begin; panel < panels.end; panel += panels_together)
      for (std::size_t first = 0; first < rows; first += rows_together)
        work(share{first, std::min(first + rows_together, rows)},
             share{panel, std::min(panel + panels_together, panels.end)});
  }
  share share_of(std::size_t count, unsigned member) const noexcept;
  share share_of_finished(unsigned member) const noexcept;
  // Writes the outputs of `panels` from column 0 of `out` on.
  void multiply(unsigned member, const packed_matrix& matrix, const input_rows& input,
                std::size_t rows, share panels, float_rows out, bool adds) const;

  forward_parts p_;
  std::vector<row> rows_;
  std::vector<sequence_rows> sequences_;
  std::vector<attention_item> items_;
  // Every slice is one item, as in decoding. No other item then reads the keys and values that it
  // stores, so each member stores and attends without a barrier in between.
  bool appends_within_ = false;
  std::uint32_t query_heads_max_ = 1; // query heads per KV head
  // [layer]: each KV head's outputs end at a column block border.
  std::vector<bool> has_whole_blocks_;
  std::vector<std::size_t> sampling_rows_;
  // Borders of the residual rows that each rank sums and normalises for all. A single part: every
  // rank processes all rows.
  std::vector<std::size_t> row_borders_;
  std::optional<error> failure_; // of the group in this step; set by member 0 between two barriers
  std::vector<std::vector<const std::byte*>> pages_; // [thread][chunk]
  std::vector<std::uint32_t> memory_indices_;        // [layer]
};

} // namespace baton::cpu
