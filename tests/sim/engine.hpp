// The toy engine of a simulated shard. Before each step it asks what befalls it: the simulation
// looks at the micro-batch there, and faults strike there. Ranks of one stage meet there as well.
#pragma once

#include "runtime/engine/toy_engine.hpp"
#include "tests/sim/group.hpp"

#include <functional>
#include <memory>

namespace baton::sim {

class sim_engine final : public engine::engine {
public:
  // May return an error, or throw.
  using before_step = std::function<result<void>(const micro_batch&)>;

  // `group`: null where it is the stage's only rank.
  sim_engine(std::shared_ptr<baton::engine::toy_engine> toy, before_step before,
             std::shared_ptr<sim_group> group)
      : toy_(std::move(toy)), before_(std::move(before)), group_(std::move(group)) {}

  const baton::engine::capacity& limits() const noexcept override { return toy_->limits(); }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    if (auto ok = before_(batch); !ok)
      return ok.error();
    if (group_)
      if (auto ok = group_->meet(batch.batch); !ok)
        return ok.error();
    auto out = toy_->run(batch, activations);
    if (group_)
      group_->compare(out);
    return out;
  }

private:
  std::shared_ptr<baton::engine::toy_engine> toy_;
  before_step before_;
  std::shared_ptr<sim_group> group_;
};

} // namespace baton::sim
