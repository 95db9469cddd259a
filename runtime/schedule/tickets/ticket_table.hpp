// Open tickets: granted or refused here, numbered, counted in the queue, and ended. Knows nothing
// of sequences, blocks or batches. Pure.
#pragma once

#include "runtime/schedule/context/scheduler_context.hpp"
#include "runtime/schedule/tickets/return_pace.hpp"
#include "runtime/schedule/tickets/ticket_queue.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <variant>

namespace baton::schedule {

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
  bool continues_prompt = false;                       // for the detokenizer
  reasoning_format reasoning = reasoning_format::none; // likewise, as in chunk
  bool begins_in_reasoning = false;
  bool has_begun = false; // a `tokens` message was sent: it can no longer be refused
  bool is_orphaned = false;
  bool is_suspended = false;
  std::optional<time_point> orphaned_at; // the first tick while orphaned
};

class ticket_table {
public:
  // `context` outlives the table.
  explicit ticket_table(const scheduler_context& context);

  // Grants a ticket, or says why not and when to try again.
  std::variant<granted, rejected> reserve(const baton::reserve& request, time_point now);
  void drain() noexcept { is_draining_ = true; } // refuses new tickets

  bool contains(ticket_id id) const { return tickets_.contains(id); }
  ticket* find(ticket_id id);
  const ticket* find(ticket_id id) const;
  ticket& at(ticket_id id) { return tickets_.at(id); }
  const std::map<ticket_id, ticket>& all() const noexcept { return tickets_; }
  // Whether the number was granted here, to a ticket that may have ended.
  bool was_granted(ticket_id id) const noexcept;

  // To be called after each change that affects the queue.
  void recount(ticket_id id);
  // One more choice runs for the first time.
  void count_start(ticket_id id);
  // Rows of it are in a step. The first one ends its queue time.
  void record_step(ticket_id id, time_point now);
  void orphan_all_of(process_id gateway);
  // The only transition of a ticket to its end. Requires: no open choices.
  void end(ticket_id id);

  // The queue ahead of a newcomer with this priority, and of the last one.
  queue_figures look_at_queue(std::int32_t priority) const {
    return queue_.look(priority, config_.max_num_seqs);
  }
  queue_figures look_at_queue() const;
  // Tickets outside the queue: each of them is suspended.
  std::size_t suspended() const noexcept { return tickets_.size() - queue_.size(); }
  // When a refused request may be sent again; 0: never.
  std::chrono::milliseconds retry_after_of(errc code) const;
  // Measures the rate at which tickets end. Call it a few times a second.
  void observe_pace(time_point now);
  std::uint64_t granted_count() const noexcept { return granted_; }
  std::uint64_t ended_count() const noexcept { return ended_; }

  // Checks the queue against the tickets, and their open choices against `open`; else the process
  // ends.
  void check_integrity(const std::map<ticket_id, std::uint32_t>& open) const;

private:
  std::optional<error> refuse_reserve(const baton::reserve& r, time_point now) const;
  std::optional<error> refuse_to_queue(const baton::reserve& r) const;

  const scheduler_config& config_;
  const pipeline_state& pipeline_;
  std::map<ticket_id, ticket> tickets_;
  ticket_queue queue_;
  ticket_id next_ticket_;
  return_pace returns_;
  bool is_draining_ = false;
  std::uint64_t granted_ = 0;
  std::uint64_t ended_ = 0;
};

} // namespace baton::schedule
