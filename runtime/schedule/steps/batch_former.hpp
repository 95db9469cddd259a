// Selects the rows of the next step: continuous batching (Orca, OSDI 2022) with chunked prefill
// beside decode (Sarathi, arXiv 2308.16369). Decodes are divided evenly over the micro-batches in
// flight (gLLM, arXiv 2504.14775). Preemption is by swap or recompute. One micro-batch runs ahead
// of the tokens (docs/decisions/0008).
#pragma once

#include "runtime/schedule/sequences/sequence_table.hpp"
#include "runtime/schedule/steps/flights.hpp"
#include "runtime/schedule/tickets/ticket_table.hpp"

#include <optional>
#include <vector>

namespace baton::schedule {

class batch_former {
public:
  // All of them outlive it.
  batch_former(scheduler_context& context, ticket_table& tickets, sequence_table& sequences,
               flights& flights)
      : config_(context.config), pipeline_(context.pipeline), totals_(context.totals),
        tickets_(tickets), sequences_(sequences), flights_(flights) {}

  // One micro-batch, which is in flight from now on. None if no epoch is open, enough of them are
  // in flight, or no rows are left.
  std::optional<micro_batch> next(time_point now);
  // One per stage and, with run-ahead, one more that waits at stage 0.
  std::size_t flights_max() const noexcept {
    return pipeline_.shape.stages + (config_.async_scheduling ? 1u : 0u);
  }

private:
  struct planned {
    sequence* which = nullptr;
    std::size_t rows = 0;
    step_states states;
  };
  struct chosen_decodes {
    std::vector<sequence*> all;
    std::size_t bytes = 0; // approximate size of their rows in a message
  };

  void start_waiting();
  bool has_unfinished_suspects() const;
  std::optional<micro_batch> next_alone(time_point now);
  bool can_issue(const sequence& s) const;
  bool is_extra() const noexcept { return flights_.size() >= pipeline_.shape.stages; }
  bool should_speculate() const;
  std::uint32_t drafts_wanted(const sequence& s) const;
  void propose_drafts(sequence& s, std::size_t rows_free);
  std::vector<sequence*> run_ahead_candidates() const;
  chosen_decodes choose_decodes(std::size_t rows) const;
  std::size_t up_to_border(const sequence& s, std::size_t rows) const;
  void plan_decodes(std::vector<planned>& plan);
  void plan_prefill(std::vector<planned>& plan);
  micro_batch form(const std::vector<planned>& plan, time_point now);
  // The pooling of rows up to `end`, for a slice of the batch.
  pool pool_of(const sequence& s, std::size_t end, std::uint32_t slice) const;

  const scheduler_config& config_;
  const pipeline_state& pipeline_;
  load_report& totals_;
  ticket_table& tickets_;
  sequence_table& sequences_;
  flights& flights_;
  batch_id next_batch_{1};
  bool is_speculating_ = false; // in the micro-batch being formed
};

} // namespace baton::schedule
