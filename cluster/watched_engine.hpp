// An engine whose steps are timed by a watch.
#pragma once

#include "actors/step_watch.hpp"
#include "runtime/engine/engine.hpp"

#include <memory>
#include <utility>

namespace baton::cluster {

class watched_engine final : public engine::engine {
public:
  watched_engine(std::shared_ptr<baton::engine::engine> inner,
                 std::shared_ptr<actors::step_watch> watch)
      : inner_(std::move(inner)), watch_(std::move(watch)) {}

  const baton::engine::capacity& limits() const noexcept override { return inner_->limits(); }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    using clock = std::chrono::steady_clock;
    watch_->begin(clock::now(), static_cast<std::uint32_t>(batch.tokens.size()));
    struct until_end { // by an exception, too
      actors::step_watch& watch;
      ~until_end() { watch.end(clock::now()); }
    } const end{*watch_};
    return inner_->run(batch, activations);
  }

private:
  std::shared_ptr<baton::engine::engine> inner_;
  std::shared_ptr<actors::step_watch> watch_;
};

} // namespace baton::cluster
