// The native engine of the seam in runtime/engine/engine.hpp: one stage of a decoder on CPU cores,
// weights quantised as in the file. Made by a shard and driven by its one compute
// thread.
#pragma once

#include "runtime/collective/collective.hpp"
#include "runtime/cpu/isa.hpp"
#include "runtime/cpu/kv_source.hpp"
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
  // Where thread i is pinned; thread 0 is the one that calls run(). Empty: the system decides.
  std::vector<int> cpus = {};
  // Room for keys and values: a number of blocks, else as many as fit into the bytes.
  std::uint32_t kv_blocks = 0;
  std::uint64_t kv_memory_bytes = std::uint64_t{256} << 20U;
  kv_format kv_cache_dtype = kv_format::f16; // what it costs: docs/decisions/0011-kv-cache-types.md
  std::optional<int> kv_file = std::nullopt; // where they outlive the process; see kv_memory::share
  // Swap space: a file of so many blocks in this directory.
  std::uint32_t swap_blocks = 0;
  std::filesystem::path swap_directory = {};
  std::uint32_t rows_max = 512;
  std::uint32_t context_max = 0; // 0: as trained; never more than that
  // Precision of the activations that meet quantised weights, 8 or 16. With 16 the default model
  // answers as in float32, token for token; with 8 its near-ties fall otherwise (4 of 99 tokens,
  // perplexity + 0.5 %) for a third more speed in prefill and large batches, none in batch 1.
  std::uint32_t activation_bits = 16;
  // A rank of a group: the slices of all its ranks, as model::split() gives them, and which one
  // this is. Empty: the stage has no other.
  std::vector<model::tensor_slice> slices = {};
  std::uint32_t rank = 0;
  // Of the last stage's rank 0: what draws under constraints are masked with. None: they fail.
  std::shared_ptr<grammar::masker> masker = nullptr;
  std::optional<isa> forced_isa = std::nullopt; // tests only; nothing: the best that this CPU has
};

struct stage_weights; // weights.hpp
using shared_weights = std::shared_ptr<const stage_weights>;

class engine_cpu final : public engine::engine {
public:
  // Reads and packs the stage's weights, which is what a load takes long for. No thread is left
  // behind. Errors: invalid_value (a field of `settings` is out of range), unsupported_model (a
  // feature of the description that this engine does not run), bad_model_file, io_failed,
  // does_not_fit.
  static result<shared_weights> read(const model::model_file& file, const model::description& model,
                                     const model::layer_range& range, const config& settings);
  // `weights`: those of the same arguments; none: they are read. `file` may be closed afterwards.
  // `group`: the other ranks, where there are slices; a run that fails in it leaves the KV of the
  // batch's own positions undefined, and the next one needs a group that has begun anew. Errors: as
  // read, and invalid_value (`group` is not of these slices).
  static result<std::unique_ptr<engine_cpu>>
  load(const model::model_file& file, const model::description& model,
       const model::layer_range& range, const config& settings, shared_weights weights = nullptr,
       std::shared_ptr<collective::collective> group = nullptr);
  // Whether load() would take the whole model, and the bytes of its packed weights; reads none.
  // Errors: unsupported_model, bad_model_file.
  static result<std::uint64_t> examine(const model::model_file& file,
                                       const model::description& model);
  ~engine_cpu() override;

  const baton::engine::capacity& limits() const noexcept override;
  // All ranks of a group run the same batches in the same order, with the same activations: all
  // give the same activations, rank 0 alone the samples. Errors: as engine::run, and those of the
  // group.
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override;

  // Has in these blocks what shards of another cut of the same model had there: from then on a
  // sequence goes on here with the bits that it would have had there. Requires: nobody writes to
  // them meanwhile, no step runs here. Errors: invalid_value (names a layer that none of them has,
  // or a block), io_failed; what the blocks hold is then undefined.
  result<void> take_over(std::span<const kv_source> from, std::span<const block_index> blocks);

  // For tests and tools: the logits [vocabulary] of draw `index` of the last run, as the sampler
  // left them. Requires: the last stage, rank 0, index < draws of that run.
  std::span<const float> logits(std::size_t index) const;

private:
  struct state;
  explicit engine_cpu(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

} // namespace baton::cpu
