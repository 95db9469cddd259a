// An engine of a shared library behind the seam of runtime/engine/engine.hpp: checks batches, feeds
// weights, draws tokens, and turns what the library says into our errors. Made by a shard.
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
  std::uint32_t draws_usual = 64; // of a step; there may be more
  std::uint32_t context_max = 0;  // 0: as trained; never more than that
  // A rank of a group: the slices of all its ranks, and which one this is. Empty: no other.
  std::vector<model::tensor_slice> slices = {};
  std::uint32_t rank = 0;
  std::uint32_t ranks_on_device = 1; // of them all, with this one
  // Of the last stage; null: a draw under a constraint is an error.
  std::shared_ptr<grammar::masker> masker = nullptr;
  std::function<void(const std::string&)> say = {}; // lines for the log; any thread
  // Hears that this process has lost its device, before anyone is told what failed with it: no
  // later step can succeed, another process has to take over. It need not return.
  std::function<void(const error&)> on_lost = {};
  // For tests and tools: logits() has those of the last run. Else an engine may draw by itself.
  bool keeps_logits = false;
};

class plugin_engine final : public engine::engine {
public:
  // `file` may be closed afterwards. Errors: invalid_value (a field of `settings`), bad_model_file,
  // and what the library answers:
  // unsupported_model, does_not_fit, io_failed, start_failed (the device or what it needs is
  // missing), internal.
  static result<std::unique_ptr<plugin_engine>>
  load(const library& from, const model::model_file& file, const model::description& model,
       const model::layer_range& range, const config& settings);
  ~plugin_engine() override;

  // The other ranks, where there are slices of several: before the first step. Errors:
  // invalid_value (of another width or rank).
  result<void> meet(std::shared_ptr<collective::collective> group);

  const baton::engine::capacity& limits() const noexcept override;
  // Errors: as engine::run; link_down where the group failed.
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override;
  bool begin(const micro_batch& batch, std::span<const float> activations) override;
  std::uint32_t begun_max() const noexcept override;
  bool is_busy() override;

  // Whether a row's bits are the same in any company and cut.
  bool is_exact() const noexcept;
  // As engine_cpu::logits. Requires: keeps_logits.
  std::span<const float> logits(std::size_t index) const;

private:
  struct state;
  explicit plugin_engine(std::shared_ptr<state> s);
  std::shared_ptr<state> state_; // rows that are kept have it as well
};

} // namespace baton::plugin
