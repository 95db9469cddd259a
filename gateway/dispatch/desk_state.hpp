// The desk's table of open requests: what it keeps of each, and the rules by which a chunk is
// taken, dropped or ends a request. Used by desk.cpp alone; no actor code.
#pragma once

#include "gateway/base/streams.hpp"
#include "gateway/dispatch/desk.hpp"
#include "gateway/state/board.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace baton::gateway {

using time_point = std::chrono::steady_clock::time_point;

enum class stage_of_request : std::uint8_t { reserving, running, resuming, leaving, asking };

// Of two deadlines, each of which may be none (0).
std::chrono::milliseconds sooner(std::chrono::milliseconds a, std::chrono::milliseconds b) noexcept;

// A head that leaves the same hole again will leave it always.
inline constexpr std::uint32_t gaps_max = 3;

struct open_entry {
  std::shared_ptr<stream> out; // none when leaving
  std::shared_ptr<quota_lease> lease;
  seat_lease seat;          // at this pipeline
  trace_handle trace{};     // none: it is not traced
  bool owes_prompt = false; // to its lease
  stage_of_request stage = stage_of_request::reserving;
  baton::reserve reserve; // with the ticket, once it is granted
  baton::submit submit;   // the same
  // False: its client came from another life of a gateway, and the head has not yet said what was
  // asked for (on_retold).
  bool has_request = true;
  bool is_told = false;                  // the client, of the grant
  std::vector<ids_prompt> delivered_ids; // per choice: of these, those that are known here
  std::vector<std::uint32_t> delivered;  // per choice: output tokens brought to the stream
  std::vector<bool> finished;            // per choice
  std::vector<bool> had_finish;          // per choice: by a client that came back, before it did
  std::uint32_t choices_left = 1;
  pipeline_set tried; // that could not take it
  // Of the pipeline that it goes on from elsewhere, until this one has granted it: it can go back.
  // Reserving.
  ticket_id left;
  time_point stays_until; // it was sent back
  std::uint32_t prompt_tokens = 0;
  std::uint32_t gaps = 0;               // since the last token was delivered
  time_point opened_at;                 // none yet, before its first desk
  std::optional<time_point> granted_at; // the first time
  time_point asked_at;                  // the head, or lost it
  std::optional<time_point> first_token_at, last_token_at;
  std::uint64_t prepare_micros = 0, queue_micros = 0; // at the head

  ticket_id ticket() const noexcept { return reserve.ticket; }
  bool is_granted() const noexcept { return ticket() || left; } // here or elsewhere
  // For its trace, if it has one: what happened to it.
  void note(std::string_view what, std::string_view reason, time_point now) const {
    if (trace) {
      trace->what.note(what, reason, now);
    }
  }
  const std::string& model() const noexcept { return reserve.model; }
};

// Whether another pipeline may be asked for it, because nothing of it has been told to anybody. Not
// of a request with a name: the log that knows the name is at one alone.
bool may_move(const open_entry& entry) noexcept;
// Whether the head refused for what is the matter with it, not with the request.
bool is_for_head(errc code) noexcept;

// What a door asks for, without what the desk adds: gateway, times, key, its own deadline.
open_entry entry_of(open_generate& m, std::uint32_t context_max);
open_entry entry_of(open_resume& m);

// Whether a head that has lost its log can be told of it.
bool is_whole(const open_entry& entry) noexcept;
// What it is told then. Requires: is_whole.
submit submit_again(const open_entry& entry, time_point now);

// Whether another pipeline can go on behind what was delivered of it. Not with a request that has a
// name, as above.
bool may_leave(const open_entry& entry, time_point now) noexcept;
// The pipeline that has its ticket, `here`, for one that is asked for another. Requires: may_leave.
void leave(open_entry& entry, const pipeline_set& here);
// Nobody else took it: to the ticket that it left.
void come_back(open_entry& entry, time_point now);
// Takes what the head says of a ticket that was opened elsewhere, if it fits to what was delivered.
void take_request(open_entry& entry, submit told);
// What the head is asked when it is back, for a ticket that it may have still.
resume resume_of(const open_entry& entry);

// What a chunk means to a request.
enum class chunk_verdict : std::uint8_t {
  deliver,
  duplicate, // a redone step's text that was delivered already: drop it
  gap,       // something before it is lost: the stream cannot go on without it
};
chunk_verdict judge(const open_entry& entry, const chunk& c) noexcept;

// Counts a chunk to be delivered, and how long it took.
void note_tokens(metrics& counts, std::uint32_t pipeline, open_entry& entry, const chunk& c,
                 time_point now);
// The prompt with the first chunk; a client that came back has paid for it before.
void spend(open_entry& entry, const chunk& c, time_point now);

// What it came to, of one whose last chunk has been taken in.
// `context_max`: of its model; 0: not known.
ended_request ended_as(const open_entry& entry, finish how, time_point now,
                       std::uint32_t context_max);

// Takes the numbers and ids of a chunk to be delivered. True: it was the last one of the request.
bool take_in(open_entry& entry, const chunk& c);

} // namespace baton::gateway
