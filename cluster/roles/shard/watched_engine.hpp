// An engine whose steps are timed by a watch.
#pragma once

#include "actors/step_watch.hpp"
#include "runtime/engine/engine.hpp"

#include <deque>
#include <memory>
#include <utility>

namespace baton::cluster {

class watched_engine final : public engine::engine {
public:
  watched_engine(std::shared_ptr<baton::engine::engine> inner,
                 std::shared_ptr<actors::step_watch> watch)
      : inner_(std::move(inner)), watch_(std::move(watch)) {}

  const baton::engine::capacity& limits() const noexcept override { return inner_->limits(); }
  // A step that was begun early is timed from the end of the previous one.
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    if (begun_.empty() || begun_.front().batch != batch.batch ||
        begun_.front().epoch != batch.epoch) {
      begun_.clear();
      watch_->begin(clock::now(), batch.rows());
    } else {
      begun_.pop_front();
    }
    struct until_end { // also after an exception
      watched_engine& self;
      ~until_end() {
        self.watch_->end(clock::now());
        if (!self.begun_.empty())
          self.watch_->begin(clock::now(), self.begun_.front().rows);
      }
    } const end{*this};
    return inner_->run(batch, activations);
  }
  bool begin(const micro_batch& batch, std::span<const float> activations) override {
    if (!inner_->begin(batch, activations))
      return false;
    if (begun_.empty())
      watch_->begin(clock::now(), batch.rows());
    begun_.push_back({batch.batch, batch.epoch, batch.rows()});
    return true;
  }
  std::uint32_t begun_max() const noexcept override { return inner_->begun_max(); }
  bool is_busy() override { return inner_->is_busy(); }
  void forget_begun() override {
    if (!begun_.empty())
      watch_->forget();
    begun_.clear();
    inner_->forget_begun();
  }

private:
  using clock = std::chrono::steady_clock;
  struct step {
    batch_id batch;
    epoch_id epoch;
    std::uint32_t rows;
  };

  std::shared_ptr<baton::engine::engine> inner_;
  std::shared_ptr<actors::step_watch> watch_;
  std::deque<step> begun_; // begun, but not run yet
};

} // namespace baton::cluster
