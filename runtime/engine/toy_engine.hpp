// A tiny deterministic engine for tests and simulation: its "activations" are 64-bit hashes, its
// "attention" hashes the KV memory of every earlier position in order. A wrong block table, a
// missing position, a stale block, swapped rows or a wrong chunk border therefore changes the
// tokens. So does a wrong slot of a recurrent state. toy_continuation computes the correct ones.
// Not used in production.
#pragma once

#include "runtime/engine/constraint_masks.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/engine/sampler.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace baton::engine {

// Shared by all stages of one toy model. The split of layers into stages does not change results.
struct toy_model {
  std::uint64_t seed = 1;
  std::uint32_t layers = 1;
  std::uint32_t vocabulary_size = 64;
  bool has_states = false; // each layer also folds the rows into a recurrent state
};

struct toy_memory {
  std::uint32_t blocks = 16;
  std::uint32_t block_positions = 4;
  std::uint32_t rows_max = 256;
  std::uint32_t max_model_len = 256;
  std::uint32_t swap_blocks = 0;
  bool pools = true; // false: the engine supports no embeddings
  std::uint32_t state_slots = 0;
};

class toy_engine final : public engine {
public:
  // A stage of `count` layers from `first_layer` on. Requires: the model has these layers; count,
  // vocabulary_size and block_positions > 0; state_slots > 0 if and only if the model has states.
  toy_engine(const toy_model& model, std::uint32_t first_layer, const toy_memory& memory,
             std::uint32_t count = 1, std::shared_ptr<grammar::masker> masker = nullptr);

  const capacity& limits() const noexcept override { return limits_; }

  // Errors: as engine::run; also internal when a row or a copy reads memory that was never written,
  // or a row the state of another position.
  result<step_output> run(const micro_batch& batch, std::span<const float> activations) override;
  // Copies these blocks and states from stages of the same model with a different layer split.
  // Errors: invalid_value (no stage has a needed layer, or a block or slot is out of range).
  result<void> take_over(std::span<const std::shared_ptr<toy_engine>> from,
                         std::span<const block_index> blocks,
                         std::span<const std::uint32_t> states = {});
  // Drops the swap space, as the end of a process does.
  void forget_swapped() { swap_.assign(swap_.size(), std::nullopt); }

private:
  struct swapped_block { // [layers, block_positions]
    std::vector<std::uint64_t> kv;
    std::vector<bool> is_written;
  };
  struct kept_state {
    std::uint64_t value = 0;
    std::uint32_t position = 0; // it follows the rows before it; 0: never written
  };
  result<void> make_copy(const micro_batch& batch, const block_copy& c);
  result<void> run_slice(const micro_batch& batch, const slice& s, std::size_t first_row,
                         std::uint32_t layer);
  // The slot `slot` of a layer of this stage; 0: the zero state.
  kept_state& state(std::uint32_t layer, std::uint32_t slot) {
    return states_[std::size_t{layer} * (limits_.state_slots + 1) + slot];
  }
  result<std::uint64_t> read_state(const micro_batch& batch, const slice& s, std::uint32_t layer);
  pooled pool_slice(const pool& how, const slice& s, std::size_t first_row) const;
  result<void> score_rows(const micro_batch& batch, step_output& out);
  std::size_t plane() const noexcept { return kv_.size() / layers_; } // of one layer

  toy_model model_;
  std::uint32_t first_layer_;
  std::uint32_t layers_;
  capacity limits_;
  std::vector<std::uint64_t> kv_; // [layers, blocks, block_positions]
  std::vector<bool> is_written_;  // the same
  std::vector<std::optional<swapped_block>> swap_;
  std::vector<kept_state> states_; // [layers, 1 + state_slots]
  std::vector<std::uint64_t> rows_;
  std::vector<float> activations_; // [rows, 4]: 16 bits of the hash each, exact in a float
  std::vector<float> logits_;      // [vocabulary]
  sampler_scratch scratch_;
  constraint_masks masks_;
};

// The oracle: the first n tokens after the prompt, computed sequence by sequence without blocks,
// batches or chunks. Ignores end tokens. Ids in `banned` cannot occur before index min_tokens.
std::vector<token_id> toy_continuation(const toy_model& model, std::span<const token_id> prompt_ids,
                                       const sampling_params& sampling, std::uint32_t n,
                                       std::span<const token_id> banned = {},
                                       std::uint32_t min_tokens = 0,
                                       std::shared_ptr<grammar::masker> masker = nullptr);

// The oracle for embeddings.
std::vector<float> toy_embedding(const toy_model& model, std::span<const token_id> prompt_ids,
                                 pooling how);

// The oracle for prompt logprobs; the first token has its id only.
std::vector<sample> toy_scores(const toy_model& model, std::span<const token_id> prompt_ids,
                               std::uint32_t top);

} // namespace baton::engine
