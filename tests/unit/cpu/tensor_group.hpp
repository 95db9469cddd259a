// The ranks of one stage as threads of the test: engines with one slice each, over a group in
// shared memory. Driven like a single engine.
#pragma once

#include "runtime/cpu/forward/engine_cpu.hpp"
#include "tests/support/deadline_scale.hpp"
#include "tests/support/shared_ranks.hpp"

namespace baton::testing {

class tensor_group {
public:
  tensor_group(const model::model_file& file, const model::description& model,
               const model::layer_range& range, cpu::config settings, std::uint32_t width,
               const std::vector<double>& speeds = {},
               std::chrono::milliseconds deadline = scaled(std::chrono::seconds(60)))
      : ranks_(width, deadline) {
    const auto blocks = model::slice_blocks_of(model, file);
    REQUIRE_MESSAGE(blocks, blocks.error().message);
    auto slices = model::split(model, width, speeds, *blocks);
    REQUIRE_MESSAGE(slices, slices.error().message);
    settings.slices = *std::move(slices);
    for (settings.rank = 0; settings.rank < width; ++settings.rank) {
      auto engine =
          cpu::engine_cpu::load(file, model, range, settings, nullptr, ranks_.of(settings.rank));
      REQUIRE_MESSAGE(engine, engine.error().message);
      engines_.push_back(*std::move(engine));
    }
  }
  tensor_group(const model::model_file& file, const model::description& model,
               const cpu::config& settings, std::uint32_t width,
               const std::vector<double>& speeds = {})
      : tensor_group(file, model, model::whole(model), settings, width, speeds) {}

  void enter_next_epoch() { ranks_.enter_next_epoch(); }

  // Runs the batch on the ranks of `taking_part` (default: all); returns the result of each.
  using outcomes = std::vector<result<baton::engine::step_output>>;
  outcomes run_ranks(const micro_batch& batch, std::span<const float> activations = {},
                     std::size_t taking_part = SIZE_MAX) {
    outcomes out(std::min(taking_part, engines_.size()), error{});
    run_together(out.size(),
                 [&](std::size_t rank) { out[rank] = engines_[rank]->run(batch, activations); });
    return out;
  }

  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) {
    auto all = run_ranks(batch, activations);
    for (const auto& each : all)
      REQUIRE_MESSAGE(each, each.error().message);
    return std::move(all.front());
  }
  std::span<const float> logits(std::size_t index) const { return engines_[0]->logits(index); }
  const baton::engine::capacity& limits(std::size_t rank) const { return engines_[rank]->limits(); }

private:
  shared_ranks ranks_;
  std::vector<std::unique_ptr<cpu::engine_cpu>> engines_;
};

} // namespace baton::testing
