// The sequence log: all that is needed to do any step of one sequence again, and how far it has
// come. Owned and changed by the scheduler alone.
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
// A state changes at once; blocks follow when no step in flight uses them any more: they go back,
// those of a preempted one by way of swap space if it has room. From there they come when it is
// running again, unless a failed step or the epoch's end has put in doubt whether every stage has
// made the copies: then, as without swap space, it is computed again from the log.
enum class sequence_state : std::uint8_t { waiting, running, ended };

// The order of service: the lower number first, then whoever came first, for tickets are numbered
// as they are granted.
struct turn {
  std::int32_t priority = 0; // of the request; under fcfs all have 0
  sequence_id id;
  friend auto operator<=>(const turn&, const turn&) = default;
};

// This token comes before the one to draw: the penalties count it, a constraint goes on behind it,
// a watermark is by it.
void count_as_output(draw& d, token_id token);

// One draw of a micro-batch.
struct draw_place {
  batch_id batch;
  std::uint32_t index = 0;
};

// In which lists of the scheduler a sequence is (sequence_lists.hpp).
struct filing {
  bool waits = false;
  bool runs = false;
  bool prefills = false;
  bool is_isolated = false;
  bool is_ready = false;
  bool is_leaving = false;
  bool is_gone = false;
  friend bool operator==(const filing&, const filing&) = default;
};

struct sequence {
  // -- the log --
  sequence_id id;
  std::int32_t priority = 0;
  std::size_t prompt_count = 0;
  std::vector<token_id> ids; // prompt, then output
  sampling_params sampling;
  stopping stop;
  std::string cache_salt; // it shares KV with sequences of the same one
  bool embeds = false;    // wanted is the prompt's embedding: nothing is drawn

  // -- how far it is; [0, computed) is acknowledged, [computed, issued) is in flight. A row may be
  // issued before its token is known: `issued` runs ahead of `ids` --
  sequence_state state = sequence_state::waiting;
  std::size_t computed = 0;
  std::size_t issued = 0;
  std::size_t published = 0;    // positions below `computed` that the prefix cache has heard of
  std::size_t cached = 0;       // prompt positions below `computed` that others have computed
  std::uint32_t in_flight = 0;  // micro-batches that carry rows of it
  std::uint32_t drawing = 0;    // of these, those that draw: as many ids are to come
  draw_place last_draw;         // where the latest of them is drawn
  std::vector<token_id> drafts; // ids guessed behind the last known one, in flight or about to be
  std::vector<float> pooled;    // of one that embeds: what [0, computed) came to
  std::vector<sample> scores;   // of the prompt's tokens behind the first, if they are wanted
  std::uint64_t last_batch = 0; // the latest that came back with rows of it, for fair turns
  bool is_void = false;         // what is in flight does not count and will be done again
  bool is_leaving = false;      // preempted: goes to swap space when nothing of it is in flight
  std::size_t swapped = 0;      // positions in swap space, of one that waits
  std::uint32_t copying = 0;    // times to or from there that are not acknowledged
  bool has_started = false;     // has been running: goes before its equals that have not
  bool has_stepped = false;     // rows of it have been in a step
  bool has_begun = false;       // its first `tokens` message is out

  // -- suspicion: rows that were in flight when a step failed or a shard died --
  std::uint32_t deaths = 0; // in a row, with the same rows in flight
  std::size_t suspect_from = 0;
  std::size_t suspect_until = 0;
  bool is_isolated = false; // its suspect rows run in micro-batches of their own, nothing beside

  // -- its places in the lists, which are kept by sequence_lists alone --
  filing filed;
  std::uint64_t ready_since = 0; // last_batch when it became ready
  sequence* ready_before = nullptr;
  sequence* ready_behind = nullptr;

  // Requires: a prompt that is not empty.
  sequence(schedule::turn when, std::span<const token_id> prompt_ids, sampling_params how,
           stopping until);

  schedule::turn turn() const noexcept { return {priority, id}; }
  // The tokens to which it may come: prompt, and all that it may draw.
  std::uint64_t potential_tokens() const noexcept {
    return prompt_count + (embeds ? 0 : std::uint64_t{stop.tokens_max});
  }
  std::uint32_t output_count() const noexcept {
    return static_cast<std::uint32_t>(ids.size() - prompt_count);
  }
  // Its next rows go on from what those in flight come to.
  bool must_wait() const noexcept { return embeds && in_flight > 0; }
  // With those to come and those guessed.
  std::size_t ids_expected() const noexcept { return ids.size() + drawing + drafts.size(); }
  // The prompt's tokens are to be told as likely as they were: with the first word of it, also of
  // one that goes on in another life of the head.
  bool wants_scores() const noexcept {
    return sampling.prompt_logprobs >= 0 && !has_begun && scores.size() + 1 < prompt_count;
  }
  // The next rows are pooled, and draw nothing. The prompt's last row has no token to score.
  bool pools_next() const noexcept {
    return embeds || (wants_scores() && issued + 1 < prompt_count);
  }
  // Not yet issued: many in prefill, one in decode.
  std::size_t rows_left() const noexcept {
    const bool is_scored = !embeds && (pools_next() || stop.tokens_max == 0);
    return (is_scored ? prompt_count - 1 : ids_expected()) - issued;
  }
  // Of these, those that may run beside rows of others: up to the suspect ones.
  std::size_t rows_in_company() const noexcept {
    return is_isolated ? std::min(suspect_from - std::min(issued, suspect_from), rows_left())
                       : rows_left();
  }
  bool must_run_alone() const noexcept { return is_isolated && issued >= suspect_from; }
  // No shard has died of rows that are valid.
  void clear_if_computed() noexcept;

  void append(token_id drawn);
  // What the last stage needs to draw the token after those that are being drawn, behind so many of
  // the guesses. If one is still to come, history and output are without it.
  draw next_draw(std::span<const token_id> eos_ids, std::size_t guessed) const;
  // Does this token, drawn at this output index, end the sequence?
  bool is_end(token_id token, std::uint32_t index, std::span<const token_id> eos_ids) const;

private:
  void count(token_id token, bool in_prompt);

  std::vector<token_count> history_; // kept only if the penalties need it
  std::unordered_map<token_id, std::size_t> history_places_;
};

} // namespace baton::schedule
