// The toy engine of a simulated shard. A hook runs before each step: it inspects the micro-batch
// and injects faults. Ranks of a stage meet there as well. An engine that begins steps computes
// them early, also those that wait for tokens of the step before. So its KV holds rows that no
// run() has asked for yet, and run() returns results computed out of order.
#pragma once

#include "runtime/engine/toy_engine.hpp"
#include "tests/sim/group.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace baton::sim {

class sim_engine final : public engine::engine {
public:
  // May return an error, or throw.
  using before_step = std::function<result<void>(const micro_batch&)>;

  // `group`: null if it is the stage's only rank; only such an engine begins steps.
  sim_engine(std::shared_ptr<baton::engine::toy_engine> toy, before_step before,
             std::shared_ptr<sim_group> group, bool begins)
      : toy_(std::move(toy)), before_(std::move(before)), group_(std::move(group)),
        begun_max_(begins && !group_ ? 2 : 0) {}

  const baton::engine::capacity& limits() const noexcept override { return toy_->limits(); }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    auto begun = take_begun(batch);
    if (auto ok = before_(batch); !ok) {
      if (group_ && ok.error().code == errc::link_down)
        group_->give_up();
      return ok.error();
    }
    if (begun) {
      rows_ = std::move(begun->rows);
      begun->out.activations = rows_;
      return std::move(begun->out);
    }
    if (group_)
      if (auto ok = group_->meet(batch.batch); !ok)
        return ok.error();
    auto out = toy_->run(batch, activations);
    if (group_)
      group_->compare(out);
    return out;
  }
  bool begin(const micro_batch& batch, std::span<const float> activations) override {
    if (begun_.size() == begun_max_ || !batch.copies.empty())
      return false;
    auto whole = batch;
    if (!feed(whole))
      return false;
    auto out = toy_->run(whole, activations);
    if (!out)
      return false;
    busy_for_ = 2;
    begun_.push_back({batch.batch, batch.epoch, *std::move(out), {}});
    auto& kept = begun_.back(); // the next step overwrites the toy's rows
    kept.rows.assign(kept.out.activations.begin(), kept.out.activations.end());
    return true;
  }
  std::uint32_t begun_max() const noexcept override { return begun_max_; }
  bool is_busy() override { return busy_for_ > 0 && busy_for_-- > 0; }

private:
  struct step {
    batch_id batch;
    epoch_id epoch;
    baton::engine::step_output out;
    std::vector<float> rows;
  };

  // Returns its outcome if it is the next step that was begun; otherwise discards all of them.
  std::optional<step> take_begun(const micro_batch& batch) {
    if (begun_.empty() || begun_.front().batch != batch.batch ||
        begun_.front().epoch != batch.epoch) {
      begun_.clear();
      return std::nullopt;
    }
    auto front = std::move(begun_.front());
    begun_.pop_front();
    return front;
  }
  // Draws the future tokens, which depend on no earlier token.
  bool feed(micro_batch& batch) const {
    for (const baton::feed& f : batch.feeds) {
      if (begun_.empty() || f.batch != begun_.back().batch ||
          f.draw >= begun_.back().out.samples.size())
        return false;
      batch.tokens[f.row] = begun_.back().out.samples[f.draw].token;
    }
    return batch.feeds.empty() ||
           std::all_of(batch.draws.begin(), batch.draws.end(), [](const draw& d) {
             const auto& s = d.sampling;
             return s.repetition_penalty == 1 && s.presence_penalty == 0 &&
                    s.frequency_penalty == 0 && !s.constraint && !s.has_watermark();
           });
  }

  std::shared_ptr<baton::engine::toy_engine> toy_;
  before_step before_;
  std::shared_ptr<sim_group> group_;
  std::uint32_t begun_max_;
  std::deque<step> begun_;
  std::vector<float> rows_; // of the last outcome begun
  int busy_for_ = 0;        // remaining polls
};

} // namespace baton::sim
