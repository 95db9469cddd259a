// The pipeline client's table of open requests: the state of each, and the rules that deliver a
// chunk, drop it or end its request. No actor code.
#pragma once

#include "gateway/base/streams.hpp"
#include "gateway/dispatch/pipeline_client.hpp"
#include "gateway/state/gateway_state.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace baton::gateway {

using time_point = std::chrono::steady_clock::time_point;

enum class request_phase : std::uint8_t { reserving, running, resuming, leaving, asking };

// The earlier of two deadlines; 0 means none.
std::chrono::milliseconds sooner(std::chrono::milliseconds a, std::chrono::milliseconds b) noexcept;

// A head that repeats a gap this often will not fill it.
inline constexpr std::uint32_t gaps_max = 3;

struct open_entry {
  std::shared_ptr<stream> out; // null while leaving
  std::shared_ptr<quota_lease> lease;
  inflight_lease inflight;  // at this pipeline
  trace_handle trace{};     // null: not traced
  bool owes_prompt = false; // the prompt is not yet charged to the lease
  request_phase phase = request_phase::reserving;
  baton::reserve reserve; // with the ticket, once it is granted
  baton::submit submit;   // the same
  // False: the client came from another gateway or an earlier incarnation of this one, and the head
  // has not sent the original request yet (on_recovered).
  bool has_request = true;
  bool has_client_grant = false;
  std::vector<ids_prompt> delivered_ids; // per choice: ids of them, if known here
  std::vector<std::uint32_t> delivered;  // per choice: output tokens delivered to the stream
  std::vector<bool> finished;            // per choice
  std::vector<bool> had_finish;          // per choice: the client had it before it resumed
  std::uint32_t choices_left = 1;
  pipeline_set tried; // pipelines that could not take it
  // The ticket at the old pipeline during a migration, until this pipeline grants. The stream can
  // return to it. Set only while reserving.
  ticket_id left_ticket;
  time_point migrates_after; // after a failed migration: no new one before
  std::uint32_t prompt_tokens = 0;
  std::uint32_t gaps = 0;               // since the last delivered token
  time_point opened_at;                 // unset until a pipeline client has it
  std::optional<time_point> granted_at; // the first grant
  time_point asked_at;                  // when the head was last asked, or lost
  std::optional<time_point> first_token_at, last_token_at;
  std::uint64_t prepare_micros = 0, queue_micros = 0; // at the head

  ticket_id ticket() const noexcept { return reserve.ticket; }
  bool is_granted() const noexcept { return ticket() || left_ticket; } // here or elsewhere
  // Adds an event to its trace, if it is traced.
  void note(std::string_view what, std::string_view reason, time_point now) const {
    if (trace) {
      trace->data.note(what, reason, now);
    }
  }
  const std::string& model() const noexcept { return reserve.model; }
};

// Whether another pipeline may be asked: the client has no grant yet. Never for a request with a
// request_id, because only one pipeline's log knows the id.
bool may_reroute(const open_entry& entry) noexcept;
// Whether the reason is the state of the head, not the request.
bool is_for_head(errc code) noexcept;

// The entry of a server's request. The caller adds gateway, times, resume key and its own deadline.
open_entry entry_of(open_generate& m, std::uint32_t max_model_len);
open_entry entry_of(open_resume& m);

// Whether the request can be replayed to a head that has lost its log.
bool is_replayable(const open_entry& entry) noexcept;
// The message of a replay. Requires: is_replayable.
submit replay(const open_entry& entry, time_point now);

// Whether another pipeline can continue after the delivered tokens. Never for a request with a
// request_id, as above.
bool may_migrate(const open_entry& entry, time_point now) noexcept;
// Starts a migration away from `here`, the pipeline that granted its ticket. Requires: may_migrate.
void begin_migration(open_entry& entry, const pipeline_set& here);
// Ends a migration that no other pipeline took: resumes the old ticket.
void abort_migration(open_entry& entry, time_point now);
// Stores the request that the head sent for a ticket opened elsewhere. Ignored if the number of
// choices differs.
void restore_request(open_entry& entry, submit recovered);
// Asks a head that is back for a ticket that it may still have.
resume resume_of(const open_entry& entry);

// How a chunk relates to the delivered text.
enum class chunk_verdict : std::uint8_t {
  deliver,
  duplicate, // a redone step repeats delivered text: drop it
  gap,       // text before it is missing: the stream cannot continue
};
chunk_verdict judge(const open_entry& entry, const chunk& c) noexcept;

// Counts a chunk to be delivered, and its latency.
void record_tokens(metrics& counts, std::uint32_t pipeline, open_entry& entry, const chunk& c,
                   time_point now);
// Charges the chunk to the quota, the first one with its prompt. A resumed request has paid for its
// prompt before.
void record_usage(open_entry& entry, const chunk& c, time_point now);

// Summary of a request whose last chunk has been taken in. `max_model_len`: of its model; 0:
// unknown.
ended_request ended_as(const open_entry& entry, finish how, time_point now,
                       std::uint32_t max_model_len);

// Records the counts and ids of a chunk to be delivered. True: it was the request's last.
bool take_in(open_entry& entry, const chunk& c);

} // namespace baton::gateway
