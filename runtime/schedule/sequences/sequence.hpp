// The sequence log: all that is needed to redo any step of one sequence, and its progress. Owned
// and changed by the scheduler alone.
#pragma once

#include "schema/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace baton::schedule {

//             slot and blocks              eos, stop, length, cancel, failure
//   waiting ──────────────────> running ─────────────────────────────────────> ended
//      ^  │      preempted,        │                                             ^
//      │  │      its KV lost       │                                             │
//      └──┼────────────────────────┘                                             │
//         └──────────── cancel, deadline, failure ───────────────────────────────┘
//
// A state changes at once; blocks are released when no step in flight uses them. The blocks of a
// preempted sequence move to swap space if it has room, and return when it runs again. If a failed
// step or an epoch's end makes the copies uncertain, it is recomputed from the log.
enum class sequence_state : std::uint8_t { waiting, running, ended };

// The order of service: lower numbers first, then by arrival, because tickets are numbered as they
// are granted.
struct service_order {
  std::int32_t priority = 0; // of the request; 0 for all under fcfs
  sequence_id id;
  friend auto operator<=>(const service_order&, const service_order&) = default;
};

// Adds a token that precedes the one to draw: to the counts of penalties, to the output of a
// constraint, and as the watermark's context.
void count_as_output(draw& d, token_id token);

// One draw of a micro-batch.
struct draw_reference {
  batch_id batch;
  std::uint32_t index = 0;
};

// The lists of the scheduler that contain a sequence (sequence_lists.hpp).
struct list_membership {
  bool waits = false;
  bool runs = false;
  bool prefills = false;
  bool is_isolated = false;
  bool is_ready = false;
  bool is_leaving = false;
  bool is_gone = false;
  friend bool operator==(const list_membership&, const list_membership&) = default;
};

struct sequence {
  // -- the log --
  sequence_id id;
  std::int32_t priority = 0;
  std::size_t prompt_count = 0;
  std::vector<token_id> ids; // prompt, then output
  request_terms terms;       // of the request, with this choice's seed and a resolved max_tokens

  // -- progress; [0, computed) is acknowledged, [computed, issued) is in flight. A row may be
  // issued before its token is known: `issued` runs ahead of `ids` --
  sequence_state state = sequence_state::waiting;
  std::size_t computed = 0;
  std::size_t issued = 0;
  std::size_t published = 0;    // positions below `computed` that are in the prefix cache
  std::size_t cached = 0;       // prompt positions below `computed` taken from the prefix cache
  std::uint32_t in_flight = 0;  // micro-batches that carry its rows
  std::uint32_t drawing = 0;    // micro-batches among them that draw: as many ids are pending
  draw_reference last_draw;     // where the latest pending id is drawn
  std::vector<token_id> drafts; // draft tokens behind the last known id, in flight or about to be
  std::vector<float> pooled;    // for embeddings: the pooling result of [0, computed)
  std::vector<sample> scores;   // prompt log probabilities from the second token on, if wanted
  std::uint64_t last_batch = 0; // the latest returned batch with rows of it, for fairness
  bool is_void = false;         // steps in flight do not count and will be redone
  bool is_leaving = false;      // preempted: moves to swap space when nothing of it is in flight
  std::size_t swapped = 0;      // positions in swap space, while it waits
  std::uint32_t copying = 0;    // swap transfers that are not acknowledged
  bool is_suspended = false;    // its ticket is: it waits for a client, not for a slot
  bool has_started = false;     // has been running: precedes equals that have not
  bool has_stepped = false;     // rows of it have been in a step
  bool has_begun = false;       // its first `tokens` message was sent

  // -- suspicion: rows that were in flight when a step failed or a shard died --
  std::uint32_t deaths = 0; // consecutive deaths with the same rows in flight
  std::size_t suspect_from = 0;
  std::size_t suspect_until = 0;
  bool is_isolated = false; // its suspect rows run in micro-batches of their own

  // -- its positions in the lists, maintained by sequence_lists alone --
  list_membership membership;
  std::uint64_t ready_since = 0; // last_batch when it became ready
  sequence* ready_before = nullptr;
  sequence* ready_behind = nullptr;

  // Requires: a prompt that is not empty.
  sequence(schedule::service_order when, std::span<const token_id> prompt_ids, request_terms asked);

  schedule::service_order service_order() const noexcept { return {priority, id}; }
  // The most tokens that it can reach: prompt and maximum output.
  std::uint64_t potential_tokens() const noexcept {
    return prompt_count + (terms.wants_embedding ? 0 : std::uint64_t{terms.stop.max_tokens});
  }
  std::uint32_t output_count() const noexcept {
    return static_cast<std::uint32_t>(ids.size() - prompt_count);
  }
  // Its next rows depend on the results of those in flight.
  bool must_wait() const noexcept { return terms.wants_embedding && in_flight > 0; }
  // Including pending and draft tokens.
  std::size_t ids_expected() const noexcept { return ids.size() + drawing + drafts.size(); }
  // Prompt log probabilities are wanted and not complete. They are sent with the first message,
  // also if the sequence continues in another incarnation of the head.
  bool wants_scores() const noexcept {
    return terms.sampling.prompt_logprobs >= 0 && !has_begun && scores.size() + 1 < prompt_count;
  }
  // The next rows are pooled and draw nothing. The prompt's last row has no token to score.
  bool pools_next() const noexcept {
    return terms.wants_embedding || (wants_scores() && issued + 1 < prompt_count);
  }
  // Not yet issued: many in prefill, one in decode.
  std::size_t rows_left() const noexcept {
    const bool is_scored = !terms.wants_embedding && (pools_next() || terms.stop.max_tokens == 0);
    return (is_scored ? prompt_count - 1 : ids_expected()) - issued;
  }
  // Rows among them that may run beside other sequences: those before the suspect rows.
  std::size_t rows_in_company() const noexcept {
    return is_isolated ? std::min(suspect_from - std::min(issued, suspect_from), rows_left())
                       : rows_left();
  }
  bool must_run_alone() const noexcept { return is_isolated && issued >= suspect_from; }
  // Ends the suspicion if all suspect rows are valid: no shard has died of them.
  void clear_if_computed() noexcept;

  void append(token_id drawn);
  // The last stage's input to draw the token after the pending ones and after `drafted` draft
  // tokens. History and output omit a pending token.
  draw next_draw(std::span<const token_id> eos_ids, std::size_t drafted) const;
  // Whether this token, drawn at this output index, ends the sequence.
  bool is_end(token_id token, std::uint32_t index, std::span<const token_id> eos_ids) const;

private:
  void count(token_id token, bool in_prompt);

  std::vector<token_count> history_; // kept only if the penalties need it
  std::unordered_map<token_id, std::size_t> history_index_;
};

} // namespace baton::schedule
