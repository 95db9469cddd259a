// The native implementation of runtime/engine/engine.hpp: one stage of a decoder on CPU cores, with
// weights quantised as in the file. Created by a shard and driven by its single compute thread.
#pragma once

#include "runtime/collective/collective.hpp"
#include "runtime/cpu/kernels/isa.hpp"
#include "runtime/cpu/memory/kv_source.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/grammar/masker.hpp"
#include "runtime/model/slice.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace baton::cpu {

struct config {
  std::uint32_t threads = 1;
  // The CPUs of the threads; thread 0 is the caller of run(). Empty: the system decides.
  std::vector<int> cpus = {};
  // Size of the KV cache: a number of blocks, else as many as fit into the bytes.
  std::uint32_t kv_blocks = 0;
  std::uint64_t kv_memory_bytes = std::uint64_t{256} << 20U;
  // States of sequences that fit, for a model with recurrent layers; at least 2.
  std::uint32_t state_slots = 64;
  kv_format kv_cache_dtype = kv_format::f16; // costs: docs/decisions/0011-kv-cache-types.md
  std::optional<int> kv_file = std::nullopt; // keeps the KV across restarts; see kv_memory::share
  // Swap space: a file of this many blocks in this directory.
  std::uint32_t swap_blocks = 0;
  std::filesystem::path swap_directory = {};
  std::uint32_t rows_max = 512;
  std::uint32_t max_model_len = 0; // 0: as trained, which is also the maximum
  // Precision of activations multiplied with quantised weights: 8 or 16 bits. With 16 the default
  // model answers as in float32, token for token. With 8, near-ties differ (4 of 99 tokens,
  // perplexity + 0.5 %); prefill and large batches are a third faster, batch 1 is not.
  std::uint32_t activation_bits = 16;
  // A rank of a group: the slices of all ranks, as model::split() returns them, and this one's
  // index. Empty: the stage has one rank.
  std::vector<model::tensor_slice> slices = {};
  std::uint32_t rank = 0;
  // Masks constrained draws on the last stage's rank 0. Null: such draws fail.
  std::shared_ptr<grammar::masker> masker = nullptr;
  std::optional<isa> forced_isa = std::nullopt; // for tests; empty: the best ISA of this CPU
};

struct stage_weights; // weights.hpp
using shared_weights = std::shared_ptr<const stage_weights>;

class engine_cpu final : public engine::engine {
public:
  // Reads and packs the stage's weights, the slow part of a load. Leaves no threads running.
  // Errors: invalid_value (a field of `settings` is out of range), unsupported_model (the engine
  // does not support a feature of the description), bad_model_file, io_failed, does_not_fit.
  static result<shared_weights> read(const model::model_file& file, const model::description& model,
                                     const model::layer_range& range, const config& settings);
  // `weights`: result of read() with the same arguments; null: reads them. `file` may be closed
  // afterwards. `group`: the other ranks, if there are slices. A run that fails in the group leaves
  // the KV of the batch's own positions undefined, and the next run needs a restarted group.
  // Errors: as read, and invalid_value (`group` does not match the slices).
  static result<std::unique_ptr<engine_cpu>>
  load(const model::model_file& file, const model::description& model,
       const model::layer_range& range, const config& settings, shared_weights weights = nullptr,
       std::shared_ptr<collective::collective> group = nullptr);
  // Whether load() would accept the whole model, and the size of its packed weights; reads none.
  // Errors: unsupported_model, bad_model_file.
  static result<std::uint64_t> examine(const model::model_file& file,
                                       const model::description& model);
  ~engine_cpu() override;

  const baton::engine::capacity& limits() const noexcept override;
  // All ranks of a group run the same batches in the same order with the same activations. All
  // return the same activations; only rank 0 returns samples. Errors: as engine::run, and the
  // group's.
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override;

  // Copies these blocks, and slots of states, from shards with a different split of the same model.
  // A sequence then continues here with the bits that it would have had there. Requires: no writes
  // to them and no step on this engine meanwhile. Errors: invalid_value (names a layer, block or
  // slot that is missing), io_failed; the blocks and slots are then undefined.
  result<void> take_over(std::span<const kv_source> from, std::span<const block_index> blocks,
                         std::span<const std::uint32_t> slots = {});

  // For tests and tools: the logits [vocabulary] of draw `index` of the last run, as modified by
  // the sampler. Requires: the last stage, rank 0, index < draws of that run.
  std::span<const float> logits(std::size_t index) const;

private:
  struct state;
  explicit engine_cpu(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

} // namespace baton::cpu
