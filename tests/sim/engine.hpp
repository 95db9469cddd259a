// The toy engine of a simulated shard. Before each step it asks what befalls it: the simulation
// looks at the micro-batch there, and faults strike there.
#pragma once

#include "runtime/engine/toy_engine.hpp"

#include <functional>
#include <memory>

namespace baton::sim {

class sim_engine final : public engine::engine {
public:
  // May return an error, or throw.
  using before_step = std::function<result<void>(const micro_batch&)>;

  sim_engine(std::shared_ptr<baton::engine::toy_engine> toy, before_step before)
      : toy_(std::move(toy)), before_(std::move(before)) {}

  const baton::engine::capacity& limits() const noexcept override { return toy_->limits(); }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    if (auto ok = before_(batch); !ok)
      return ok.error();
    return toy_->run(batch, activations);
  }

private:
  std::shared_ptr<baton::engine::toy_engine> toy_;
  before_step before_;
};

} // namespace baton::sim
