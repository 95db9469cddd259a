// Implements engine::engine with an engine from a shared library: checks batches, provides weights,
// draws tokens and converts the library's errors. Created by a shard.
#pragma once

#include "runtime/collective/collective.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/grammar/masker.hpp"
#include "runtime/model/slice.hpp"
#include "runtime/plugin/library.hpp"

#include <functional>
#include <memory>

namespace baton::plugin {

struct config {
  std::string device; // "cuda:0"
  element weights = element::f32;
  element kv = element::f16;
  quantization quantized = quantization::none;
  std::uint32_t group = 128; // of int4
  bool is_eager = false;
  std::uint32_t threads = 1;
  std::uint32_t blocks = 0, block_positions = 64;
  std::uint32_t swap_blocks = 0;
  std::uint32_t rows_max = 512;
  std::uint32_t draws_usual = 64;  // per step; more are possible
  std::uint32_t max_model_len = 0; // 0: as trained, which is also the maximum
  // A rank of a group: the slices of all ranks, and this one's index. Empty: a single rank.
  std::vector<model::tensor_slice> slices = {};
  std::uint32_t rank = 0;
  std::uint32_t ranks_on_device = 1; // how many ranks share this device, including this one
  // For the last stage; null: a constrained draw is an error.
  std::shared_ptr<grammar::masker> masker = nullptr;
  std::function<void(const std::string&)> log_line = {}; // writes a line to the log; any thread
  // Called when this process has lost its device, before the failed call returns. No later step can
  // succeed, so another process must take over. The call need not return.
  std::function<void(const error&)> on_lost = {};
  // For tests and tools: keeps the logits of the last run. Otherwise an engine may draw by itself.
  bool keeps_logits = false;
};

class plugin_engine final : public engine::engine {
public:
  // `file` may be closed afterwards. Errors: invalid_value (a field of `settings`), bad_model_file,
  // and the library's: unsupported_model, does_not_fit, io_failed, start_failed (the device or a
  // dependency is missing), internal.
  static result<std::unique_ptr<plugin_engine>>
  load(const library& from, const model::model_file& file, const model::description& model,
       const model::layer_range& range, const config& settings);
  ~plugin_engine() override;

  // Connects to the other ranks, if there are several slices. Call before the first step. Errors:
  // invalid_value (wrong width or rank).
  result<void> connect(std::shared_ptr<collective::collective> group);

  const baton::engine::capacity& limits() const noexcept override;
  // Errors: as engine::run; link_down if the group failed.
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override;
  bool begin(const micro_batch& batch, std::span<const float> activations) override;
  std::uint32_t begun_max() const noexcept override;
  bool is_busy() override;

  // Whether a row's bits are independent of the batch and the chunking.
  bool is_exact() const noexcept;
  // As engine_cpu::logits. Requires: keeps_logits.
  std::span<const float> logits(std::size_t index) const;

private:
  struct state;
  explicit plugin_engine(std::shared_ptr<state> s);
  std::shared_ptr<state> state_; // shared with activations that are kept
};

} // namespace baton::plugin
