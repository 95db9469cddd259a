// The toy engine of a simulated shard. Before each step it asks what befalls it: the simulation
// looks at the micro-batch there, and faults strike there. Ranks of one stage meet there as well.
// One that begins steps does them before they are asked for, those that wait for tokens of the one
// ahead as well, so that KV has what no step has asked for yet, or ever will.
#pragma once

#include "runtime/engine/toy_engine.hpp"
#include "tests/sim/group.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace baton::sim {

class sim_engine final : public engine::engine {
public:
  // May return an error, or throw.
  using before_step = std::function<result<void>(const micro_batch&)>;

  // `group`: null where it is the stage's only rank; such a one alone begins steps.
  sim_engine(std::shared_ptr<baton::engine::toy_engine> toy, before_step before,
             std::shared_ptr<sim_group> group, bool begins)
      : toy_(std::move(toy)), before_(std::move(before)), group_(std::move(group)),
        begun_max_(begins && !group_ ? 2 : 0) {}

  const baton::engine::capacity& limits() const noexcept override { return toy_->limits(); }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    begun_ -= std::min(begun_, 1U);
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
  // What comes of it is found again by run().
  bool begin(const micro_batch& batch, std::span<const float> activations) override {
    if (begun_ == begun_max_ || !batch.copies.empty())
      return false;
    auto whole = batch;
    for (const feed& f : batch.feeds) {
      if (f.batch != last_begun_ || f.draw >= last_drawn_.size())
        return false;
      whole.tokens[f.row] = last_drawn_[f.draw].token;
    }
    ++begun_;
    busy_for_ = 2;
    last_begun_ = batch.batch;
    last_drawn_.clear();
    if (auto out = toy_->run(whole, activations))
      last_drawn_ = std::move(out->samples);
    return true;
  }
  std::uint32_t begun_max() const noexcept override { return begun_max_; }
  bool is_busy() override { return busy_for_ > 0 && busy_for_-- > 0; }

private:
  std::shared_ptr<baton::engine::toy_engine> toy_;
  before_step before_;
  std::shared_ptr<sim_group> group_;
  std::uint32_t begun_max_, begun_ = 0;
  batch_id last_begun_;
  std::vector<sample> last_drawn_; // by that one
  int busy_for_ = 0;               // so many looks
};

} // namespace baton::sim
