// Admission of tickets, batch forming, and handling of step results. Pure: (state, events, time) ->
// (micro-batches, tokens, rejections); no I/O, no clock, no threads. Driven by the scheduler actor.
//
// A facade over its parts:
//   ticket_table     tickets and their queue
//   sequence_table   sequences, slots, KV blocks
//   batch_former     the rows of the next step
//   flights          steps without a result
//   acknowledgement  results of steps
//   suspects         requests that end shards
//   ticket_output    messages, and the ends of choices and tickets
#pragma once

#include "runtime/schedule/steps/acknowledge.hpp"
#include "runtime/schedule/steps/batch_former.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace baton::schedule {

// Counters that are not in load_report.
struct counters {
  std::uint64_t stale_results = 0;     // results of a closed epoch
  std::uint64_t duplicate_results = 0; // results of a batch that is not in flight
  std::uint64_t tickets_granted = 0;
  std::uint64_t tickets_ended = 0;
  std::uint64_t quarantined = 0;
};

class scheduler {
public:
  // Requires: sizes above 0, max_num_batched_tokens and max_model_len above 1.
  explicit scheduler(scheduler_config config);
  scheduler(const scheduler&) = delete; // its parts refer to each other
  scheduler& operator=(const scheduler&) = delete;

  // -- tickets (admission.cpp, ticket_recovery.cpp). Each ticket ends exactly once: by the last
  // `tokens` of its last choice, or by one refusal before any of its tokens.
  // A request that names the ticket of an earlier head is refused while rows of it are in flight.
  std::variant<granted, rejected> reserve(const baton::reserve& request, time_point now);
  // An invalid request is refused through the output; a request whose ticket has ended is dropped.
  // `now` affects only the times reported in `tokens`.
  void admit(const baton::admit& request, time_point now = {});
  void cancel(const baton::cancel& request);
  // A gateway is down or unreachable: it or another one may resume its tickets.
  void orphan_all_of(process_id gateway) { tickets_.orphan_all_of(gateway); }
  // Resumes a ticket. False if no open ticket has this number, this key and as many choices.
  bool resume(const baton::resume& request);
  // A ticket's request, from which a resuming gateway can recreate the ticket on another head.
  // Without the model's name. Contains, for each choice, the tokens received according to `to`; an
  // ended choice counts as delivered. Empty if no choice of the ticket is open.
  struct recovered {
    baton::reserve reserve;
    baton::submit submit;
  };
  std::optional<recovered> rebuild_request(const baton::resume& to, time_point now);
  // Granted, and not ended.
  bool is_known(ticket_id id) const { return tickets_.contains(id); }
  bool is_reserved(ticket_id id) const; // granted, but not yet admitted
  // Ends tickets whose wait or deadline has expired. Call it a few times a second.
  void tick(time_point now);
  void drain() noexcept { tickets_.drain(); } // refuses new tickets, finishes the others

  // -- the step. next() forms one micro-batch per stage and, with run-ahead, one more that waits at
  // stage 0. That one continues sequences with tokens still being drawn, so that no stage waits for
  // the scheduler (batch_former.cpp). on_sampled acknowledges a step (acknowledge.cpp).
  std::optional<micro_batch> next(time_point now = {}) { // `now`: as for admit
    return batches_.next(now);
  }
  void on_sampled(const sampled& step) { results_.on_sampled(step); }

  // -- the pipeline's lifecycle (epochs.cpp). Closing invalidates steps in flight, except
  // results that arrive from the last stage before the next epoch opens. If the KV was lost,
  // sequences are recomputed from the log, before those that have not started. Requires: closed, a
  // later epoch.
  void open_epoch(epoch_id epoch, const pipeline_shape& shape, loss last = loss::shard,
                  kv_fate kv = kv_fate::lost);
  // `since`: when the pipeline was lost; earlier than now if epochs failed to open meanwhile.
  // `why`: the reason reported to waiting requests.
  void close_epoch(time_point since, std::string why = {});
  bool is_open() const noexcept { return context_.pipeline.epoch.has_value(); }
  bool is_unloaded() const noexcept { return context_.pipeline.is_unloaded(); }
  // The model has no shards until a request loads it (load_timeout). Requires: closed.
  void unload();
  // It cannot be loaded: ends all requests that wait for it. They are retryable if the error is.
  void refuse_load(const error& why);

  // The blocks with contents that may be needed again (kv_move.hpp).
  std::vector<held_block> held_blocks() const { return sequences_.held_blocks(); }
  // The same of the slots of recurrent states. Requires: nothing is in flight.
  std::vector<state_slot> held_states() const { return sequences_.states().contents(); }

  // The output since the last call.
  output take() { return output_.take(); }
  bool has_flights() const noexcept { return !flights_.empty(); }
  bool is_idle() const noexcept { return tickets_.all().empty() && flights_.empty(); }
  load_report load() const; // without model, recoveries, recovery_seconds and bubble_ratio
  counters counted() const noexcept {
    return {.stale_results = results_.stale_results(),
            .duplicate_results = results_.duplicate_results(),
            .tickets_granted = tickets_.granted_count(),
            .tickets_ended = tickets_.ended_count(),
            .quarantined = quarantined_};
  }
  void check_integrity() const;

private:
  std::optional<error> refuse_admit(const baton::admit& request, const ticket& t) const;
  static error no_embeddings();
  bool note_loading(time_point now);
  void tick_orphaned(ticket_id id, time_point now);
  void suspend(ticket_id id);
  void limit_suspended();
  void quarantine(kv_fate kv);
  void refuse_embeddings();

  scheduler_context context_;
  const scheduler_config& config_ = context_.config;
  ticket_table tickets_;
  sequence_table sequences_;
  ticket_output output_;
  flights flights_;
  suspects suspects_;
  batch_former batches_;
  acknowledgement results_;
  std::uint64_t quarantined_ = 0;
  std::optional<time_point> loading_since_; // since requests wait for the model
};

} // namespace baton::schedule
