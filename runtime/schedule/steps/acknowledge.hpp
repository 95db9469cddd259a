// Handling of finished and failed steps. A step is acknowledged by its result under the current
// epoch, or under the last one while none is open. Only then do sequences grow, tokens enter the
// log and blocks become free.
#pragma once

#include "runtime/schedule/steps/flights.hpp"
#include "runtime/schedule/steps/suspects.hpp"
#include "runtime/schedule/steps/ticket_output.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace baton::schedule {

class acknowledgement {
public:
  // All of them outlive it.
  acknowledgement(scheduler_context& context, sequence_table& sequences, flights& flights,
                  suspects& suspects, ticket_output& output)
      : config_(context.config), pipeline_(context.pipeline), totals_(context.totals),
        sequences_(sequences), flights_(flights), suspects_(suspects), output_(output) {}

  void on_sampled(const sampled& step);
  std::uint64_t stale_results() const noexcept { return stale_results_; }
  std::uint64_t duplicate_results() const noexcept { return duplicate_results_; }

private:
  bool is_whole(const sampled& step, std::size_t draws, std::size_t pools) const;
  void accept(batch_id batch, const part& p, std::span<const sample> drawn);
  void accept(batch_id batch, const part& p, const baton::pooled& result);
  void take_token(sequence& s, const sample& drawn);
  void take_pooled(sequence& s, const baton::pooled& result);
  void take_scores(sequence& s, const baton::pooled& result);
  sequence& land(batch_id batch, const part& p);
  bool land_late(const sampled& step);
  template <class Parts>
  void record_step(const sampled& step, const Parts& parts, bool has_failed);
  void fail_step(batch_id batch, const flight& failed, const error& why);

  const scheduler_config& config_;
  const pipeline_state& pipeline_;
  load_report& totals_;
  sequence_table& sequences_;
  flights& flights_;
  suspects& suspects_;
  ticket_output& output_;
  std::uint64_t stale_results_ = 0;
  std::uint64_t duplicate_results_ = 0;
};

} // namespace baton::schedule
