// Admission of tickets, batch forming, and handling of step results. Pure: (state, events, time) ->
// (micro-batches, tokens, rejections); no I/O, no clock, no threads. Driven by the scheduler actor.
#pragma once

#include "runtime/schedule/blocks.hpp"
#include "runtime/schedule/kv_move.hpp"
#include "runtime/schedule/prompt_lookup.hpp"
#include "runtime/schedule/return_pace.hpp"
#include "runtime/schedule/sequence_lists.hpp"
#include "runtime/schedule/ticket_queue.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace baton::schedule {

using time_point = std::chrono::steady_clock::time_point;

// The order of service: by arrival, or by the request's `priority` first.
enum class scheduling_policy : std::uint8_t { fcfs, priority };

// Names follow vLLM and TorchServe where they have one.
struct scheduler_config {
  std::uint32_t max_num_seqs = 64;            // slots: sequences that run at the same time
  std::uint32_t max_num_batched_tokens = 256; // rows of one micro-batch
  // Maximum tokens that the running sequences may reach together, prompts and outputs: TGI's batch
  // budget. At least max_model_len; 0: as many as the KV memory holds.
  std::uint64_t max_batch_total_tokens = 0;
  std::uint32_t prefill_chunk = 128;       // prompt rows among them: bounds a decode's wait
  std::uint32_t max_model_len = 2048;      // positions of one sequence, prompt and output
  std::uint32_t vocabulary_size = 0;       // required: ids from clients are checked against it
  std::uint32_t max_num_queued_reqs = 128; // tickets beyond the slots
  std::uint64_t max_num_queued_tokens = 1 << 18; // their total estimate
  schedule::scheduling_policy scheduling_policy = schedule::scheduling_policy::fcfs;
  bool enable_prefix_caching = true;                   // KV of equal prefixes is computed once
  bool async_scheduling = true;                        // run-ahead: see scheduler::next
  std::uint32_t num_speculative_tokens = 0;            // draft tokens per decoding row; 0: none
  std::uint32_t speculative_disable_by_batch_size = 0; // no drafts while so many run; 0: always
  lookup_config lookup;                                // how draft tokens are found
  baton::pooling pooling = baton::pooling::mean;       // pooling of embeddings
  bool use_job_ticket = false;                         // no queue: a free slot now, or a refusal
  std::vector<token_id> eos_ids;                       // end-of-sequence tokens of the model
  ticket_id first_ticket{1};                           // above all tickets of earlier incarnations
  std::uint64_t ticket_step = 1;                       // from one ticket to the next
  std::chrono::milliseconds retry_after{1000};         // the minimum, for retryable refusals
  std::chrono::milliseconds submit_timeout{10'000};    // from granted to admit
  std::chrono::milliseconds queue_deadline{60'000};    // from granted to the first slot; 0: none
  std::chrono::milliseconds recovery_timeout{60'000};  // without a pipeline; 0: none
  // A ticket without a listener runs on for `detach_grace`, because its gateway or client may
  // return. After that a resumable ticket is suspended, without slot and blocks, until
  // `resume_window` has passed since it was orphaned.
  std::chrono::milliseconds detach_grace{5'000};
  std::chrono::milliseconds resume_window{300'000};
  std::uint32_t max_num_parked_reqs = 256; // the oldest one is dropped
};

// Choices of one ticket: OpenAI's bound on `n`.
inline constexpr std::uint32_t choices_max = 128;
// A sequence is blamed if its rows were in flight at so many consecutive shard deaths, alone at the
// last one. `crashes` count shards that ended themselves. `kills` count shards killed from outside
// (out of memory, or a step that did not end).
inline constexpr std::uint32_t crashes_max = 2, kills_max = 3;

// Why the last epoch closed, as known when the next one opens. Sequences in flight become suspects
// only after the death of a shard, not after a link failure between live ones.
enum class loss : std::uint8_t { link, shard };
// Whether every stage still has the keys and values of all acknowledged rows.
enum class kv_fate : std::uint8_t { lost, kept };

// The parameters that all stages of an epoch share.
struct pipeline_shape {
  std::uint32_t stages = 1; // as many micro-batches run at a time
  std::uint32_t blocks = 0; // KV blocks, the minimum over all stages
  std::uint32_t block_positions = 64;
  std::uint32_t swap_blocks = 0; // the minimum over all stages
  bool pools = true;             // all stages run the steps of an embedding
};

struct refusal {
  process_id gateway;
  rejected message;
};

struct output {
  std::vector<baton::tokens> tokens; // for the detokenizer, in order
  std::vector<refusal> refusals;     // for the gateways
};

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

  // -- tickets (tickets.cpp). Each ticket ends exactly once: by the last `tokens` of its last
  // choice, or by one refusal before any of its tokens.
  std::variant<granted, rejected> reserve(const baton::reserve& request, time_point now);
  // An invalid request is refused through the output; a request whose ticket has ended is dropped.
  // `now` affects only the times reported in `tokens`.
  void admit(const baton::admit& request, time_point now = {});
  void cancel(const baton::cancel& request);
  // A gateway is down or unreachable: it or another one may resume its tickets.
  void orphan_all_of(process_id gateway);
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
  bool is_known(ticket_id id) const;    // granted, and not ended
  bool is_reserved(ticket_id id) const; // granted, but not yet admitted
  // Ends tickets whose wait or deadline has expired. Call it a few times a second.
  void tick(time_point now);
  void drain() noexcept { is_draining_ = true; } // refuses new tickets, finishes the others

  // -- the step. next() forms one micro-batch per stage and, with run-ahead, one more that waits at
  // stage 0. That one continues sequences with tokens still being drawn, so that no stage waits for
  // the scheduler (batching.cpp). on_sampled acknowledges a step (acknowledge.cpp).
  std::optional<micro_batch> next(time_point now = {}); // `now`: as for admit
  void on_sampled(const sampled& step);

  // -- the pipeline's lifecycle (acknowledge.cpp). Closing invalidates steps in flight, except
  // results that arrive from the last stage before the next epoch opens. If the KV was lost,
  // sequences are recomputed from the log, before those that have not started. Requires: closed, a
  // later epoch.
  void open_epoch(epoch_id epoch, const pipeline_shape& shape, loss last = loss::shard,
                  kv_fate kv = kv_fate::lost);
  // `since`: when the pipeline was lost; earlier than now if epochs failed to open meanwhile.
  // `why`: the reason reported to waiting requests.
  void close_epoch(time_point since, std::string why = {});
  bool is_open() const noexcept { return epoch_.has_value(); }

  // The blocks with contents that may be needed again (kv_move.cpp).
  std::vector<held_block> held_blocks() const;

  // The output since the last call.
  output take() { return std::exchange(output_, {}); }
  bool has_flights() const noexcept { return !flights_.empty(); }
  bool is_idle() const noexcept { return tickets_.empty() && flights_.empty(); }
  load_report load() const; // without model, recoveries, recovery_seconds and bubble_ratio
  const counters& counted() const noexcept { return counters_; }
  void check_integrity() const;

private:
  //   reserve ──granted──> reserved ──admit──> admitted ──last choice ended──> ended
  //                           │                 │    ^                           ^
  //                           │                 │    └── resume ──┐              │
  //                           │                 └ left ─> orphaned ─ grace ─> suspended
  //                           │                               └──── window ──────┴──> ended
  //                           └──── timeout, cancel, refused ───────────────────────> ended
  struct ticket {
    std::uint64_t request = 0;
    process_id gateway;
    std::int32_t priority = 0;
    std::uint32_t choices = 0;
    std::uint32_t choices_open = 0; // not ended
    std::uint32_t choices_started = 0;
    std::uint64_t tokens_estimate = 0;
    std::uint32_t prompt_tokens = 0;
    time_point reserved_at;
    time_point admitted_at;
    std::optional<time_point> stepped_at; // the first step with rows of it
    std::optional<time_point> deadline;
    std::uint64_t resume_key = 0;
    bool is_resumable = false; // may be suspended
    bool is_admitted = false;
    bool continues_prompt = false; // for the detokenizer
    bool has_begun = false;        // a `tokens` message was sent: it can no longer be refused
    bool is_orphaned = false;
    bool is_suspended = false;
    std::optional<time_point> orphaned_at; // the first tick while orphaned
  };
  struct part {             // one slice of a batch in flight
    sequence* of = nullptr; // kept while it is in flight
    std::size_t position = 0;
    std::size_t rows = 0; // including draft tokens
    bool samples = false;
    std::size_t drafts = 0; // the draft tokens at the end of the rows
    bool pools = false;
    bool scores = false; // pools log probabilities
    bool is_prefill = false;
    std::size_t draws() const noexcept { return samples ? 1 + drafts : 0; }
  };
  struct range { // of positions
    std::size_t from = 0;
    std::size_t until = 0;
  };
  struct flight { // a micro-batch
    std::vector<part> parts;
    std::vector<service_order> copied; // sequences whose blocks it copies to or from swap space
  };
  struct late_part { // of a batch that was in flight when the epoch closed
    service_order who;
    std::size_t position = 0;
    std::size_t rows = 0; // without draft tokens
    std::size_t draws = 0;
    bool pools = false;
    bool scores = false;
    bool is_prefill = false;
  };
  struct planned {
    sequence* which = nullptr;
    std::size_t rows = 0;
  };

  // tickets.cpp
  bool has_given_up(time_point now) const; // the pipeline was lost for too long
  std::string with_cause(const std::string& what) const {
    return why_closed_.empty() ? what : what + ": " + why_closed_;
  }
  std::chrono::milliseconds retry_after_of(errc code) const;
  std::optional<error> refuse_reserve(const baton::reserve& r, time_point now) const;
  std::optional<error> refuse_to_queue(const baton::reserve& r) const;
  queue_figures look_at_queue(std::int32_t priority) const {
    return queue_.look(priority, config_.max_num_seqs);
  }
  void recount(ticket_id id); // after each change that affects the queue
  std::optional<error> refuse_admit(const baton::admit& request, const ticket& t) const;
  static error no_embeddings();
  void refuse(ticket_id id, error why);
  void fail_ticket(ticket_id id, finish how, const error& why);
  void fail_choice(sequence& s, const error& why);
  void tick_orphaned(ticket_id id, time_point now);
  void suspend(ticket_id id);
  void limit_suspended();
  tokens message_of(sequence& s);
  void end_choice(sequence& s, tokens last, finish how, std::optional<error> why,
                  std::uint32_t tokens_total);
  void end_ticket(ticket_id id);

  // batching.cpp
  void start_waiting();
  bool start(sequence& s);
  bool can_preempt_for(const sequence& s) const;
  void reuse_prefix(sequence& s);
  bool has_unfinished_suspects() const;
  std::optional<micro_batch> next_alone(time_point now);
  void record_first_step(sequence& s, time_point now);
  std::size_t flights_max() const noexcept {
    return shape_.stages + (config_.async_scheduling ? 1u : 0u);
  }
  bool can_issue(const sequence& s) const;
  bool is_extra() const noexcept { return flights_.size() >= shape_.stages; }
  bool should_speculate() const;
  std::uint32_t drafts_wanted(const sequence& s) const;
  void propose_drafts(sequence& s, std::size_t rows_free);
  std::vector<sequence*> run_ahead_candidates() const;
  struct chosen_decodes {
    std::vector<sequence*> all;
    std::size_t bytes = 0; // approximate size of their rows in a message
  };
  chosen_decodes choose_decodes(std::size_t rows) const;
  void plan_decodes(std::vector<planned>& plan);
  void plan_prefill(std::vector<planned>& plan);
  bool make_room(sequence& s);
  sequence* last_running();
  void preempt(sequence& s);
  void put_back(sequence& s);
  void swap_out(sequence& s);
  void swap_in(sequence& s);
  bool has_pending_releases() const noexcept { return lists_.leaving() > 0; }
  micro_batch form(const std::vector<planned>& plan, time_point now);
  // The pooling of rows up to `end`, for a slice of the batch.
  pool pool_of(const sequence& s, std::size_t end, std::uint32_t slice) const;

  // acknowledge.cpp
  bool is_whole(const sampled& step, std::size_t draws, std::size_t pools) const;
  void accept(batch_id batch, const part& p, std::span<const sample> drawn);
  void accept(batch_id batch, const part& p, const baton::pooled& result);
  void acknowledge(sequence& s, std::size_t rows);
  void take_token(sequence& s, const sample& drawn);
  void take_pooled(sequence& s, const baton::pooled& result);
  void take_scores(sequence& s, const baton::pooled& result);
  sequence& land(batch_id batch, const part& p);
  bool land_late(const sampled& step);
  void clear_of_suspicion(const late_part& p);
  template <class Parts>
  void record_step(const sampled& step, const Parts& parts, bool has_failed);
  void fail_step(batch_id batch, const std::vector<part>& parts, const error& why);
  void lose_copies(sequence& s);
  void settle(sequence& s);
  void sweep();
  bool fits(std::size_t ids) const;
  void forget_kv();
  void refuse_embeddings();
  void judge_suspects(kv_fate kv);

  sequence* find(const service_order& who);
  // Calls `what` for the ticket's known sequences; it may end them, and the ticket with them.
  void for_choices(ticket_id id, const std::function<void(sequence&)>& what);
  bool is_suspended(const sequence& s) const;
  // Updates the lists; to be called after each change of a sequence.
  void update_lists(sequence& s) { lists_.update(s, is_suspended(s)); }
  // Whether `s` would exceed the token budget beside the running sequences.
  bool passes_budget(const sequence& s, std::uint64_t running_potential) const noexcept {
    const auto most = config_.max_batch_total_tokens;
    return most != 0 && running_potential + s.potential_tokens() > most;
  }
  std::uint32_t running_count() const noexcept {
    return static_cast<std::uint32_t>(lists_.running().size());
  }

  scheduler_config config_;
  pipeline_shape shape_;
  std::optional<epoch_id> epoch_;
  epoch_id last_epoch_;
  std::optional<time_point> closed_at_;
  std::string why_closed_;
  block_manager blocks_;
  std::map<ticket_id, ticket> tickets_;
  std::map<service_order, sequence>
      sequences_; // in order of service; an ended one stays while in flight
  sequence_lists lists_;
  ticket_queue queue_;
  std::map<batch_id, flight> flights_;
  std::vector<block_copy> copies_;                  // carried by the next micro-batch
  std::vector<service_order> copied_;               // the sequences of `copies_`
  std::map<service_order, range> suspects_;         // rows in flight when the last epoch closed
  std::map<batch_id, std::vector<late_part>> late_; // the same by batch, while no epoch is open
  ticket_id next_ticket_;
  batch_id next_batch_{1};
  return_pace returns_;
  bool is_draining_ = false;
  bool has_isolated_in_flight_ = false;
  bool is_speculating_ = false; // in the micro-batch being formed
  output output_;
  load_report totals_;
  counters counters_;
};

} // namespace baton::schedule
