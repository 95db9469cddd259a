// The gateway actor of one pipeline: between the doors' streams and the pipeline's head. Gives each
// request its way through reserve, granted and submit, brings chunks to its stream, and tells the
// scheduler at once when a client has gone. Never touches a socket, never waits for a door.
//
//   open_generate -> reserving --granted--> running --last finish--> (done)
//                     |  |  |                |   |
//                     |  |  +-rejected-------|---+-- failed chunk --> (failed)
//                     |  +-close--> leaving  +-close, slow reader--> cancel --> (done)
//                     +-no answer--> leaving      |
//                                       +--granted--> cancel --> (done)
//
// The head may fall, or the link to it: what was reserving is reserved once more when one is back,
// and a ticket is asked for. A head that does not have it is told of it again, with the tokens that
// were delivered: it goes on behind them. `open_resume` is a client that comes back from elsewhere.
//
// With the grant of one that came from elsewhere the head says what was asked for, so that another
// head can be told of it as well.
//
//   running --head lost, gap--> resuming --granted--> running
//   open_resume -----------------^  |
//                                   +-rejected--> reserving again, if all of it is known here;
//                                                 else (failed)
//
// What the head cannot take now, and nobody has been told of, is handed over to where it came from
// (front.hpp) if another pipeline may take it. So is a stream whose pipeline has been away for
// move_patience (outage.hpp) while another one is ready: it goes on there behind what was
// delivered, with a new ticket. The one that it has left is cancelled with that grant. Without it
// the stream goes back to its ticket, and waits and ends here as ever: at each moment one desk has
// it.
//
//   running, resuming --away--> reserving elsewhere --granted--> running, the new ticket told
//                                   +-refused, lost: the next one; none left--> resuming here
//
// A gap, text that does not follow on what was delivered, is asked for like that a few times; one
// that stays ends the request.
#pragma once

#include "actors/interfaces.hpp"
#include "gateway/base/streams.hpp"
#include "gateway/state/board.hpp"
#include "gateway/tracing/tracer.hpp"

#include <caf/all.hpp>

#include <memory>
#include <string>

namespace baton::gateway {

// Doors to desk, local only. `out` gets the answers; `request.request` is set from its number.
struct open_generate {
  std::shared_ptr<stream> out;
  generate request;
  bool add_generation_prompt = true;
  bool is_stream = false; // its client can go on behind what it has, if this gateway falls
  std::shared_ptr<quota_lease> lease = nullptr; // of its caller's key; none: nobody's
  seat_lease seat = nullptr;                    // the front's, at the pipeline it has chosen
  trace_handle trace = nullptr;                 // none: it is not traced
};
struct open_resume {
  std::shared_ptr<stream> out;
  std::string model;
  ticket_id ticket;
  std::uint64_t resume_key = 0;
  std::vector<resume_point> from; // one per choice
  std::shared_ptr<quota_lease> lease = nullptr;
  seat_lease seat = nullptr;
  trace_handle trace = nullptr;
};
struct open_tokenize {
  std::shared_ptr<stream> out;
  prompt input;
  bool add_generation_prompt = true;
  std::shared_ptr<quota_lease> lease = nullptr;
  std::string model{};
  trace_handle trace = nullptr;
  std::string tools{}; // of a chat
  baton::template_options template_options{};
};
struct open_detokenize {
  std::shared_ptr<stream> out;
  std::vector<token_id> ids;
  std::shared_ptr<quota_lease> lease = nullptr;
  std::string model{};
  trace_handle trace = nullptr;
};
struct close_request {
  std::uint64_t request = 0;
  cancel_reason why = cancel_reason::client_gone;
};

struct open_entry; // desk_state.hpp
// Desk to front, which finds another desk for it or tells the refusal; front to that desk.
struct handover {
  std::shared_ptr<open_entry> entry;
  rejected why;
};
// A stream goes on elsewhere, or nowhere: to the desk of the pipeline that has granted this, by way
// of the front.
struct ticket_left {
  ticket_id ticket;
};

} // namespace baton::gateway

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::open_generate)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::open_resume)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::open_tokenize)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::open_detokenize)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::close_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::handover)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::ticket_left)

namespace baton::gateway {

// Whom the doors of this process talk to: the front, or a desk alone.
using front_actor =
    actors::takes<open_generate, open_resume, open_tokenize, open_detokenize, close_request>;
using handover_actor = actors::takes<handover, ticket_left>;

// What the head sends (gateway_actor), and what the doors send. Converts to both.
using desk_actor =
    actors::gateway_actor::extend<caf::reacts_to<open_generate>, caf::reacts_to<open_resume>,
                                  caf::reacts_to<open_tokenize>, caf::reacts_to<open_detokenize>,
                                  caf::reacts_to<close_request>, caf::reacts_to<handover>,
                                  caf::reacts_to<ticket_left>>;

std::uint64_t random_key(); // of the system's entropy

// What the desk is told once. Handles may be proxies for actors of the head's process.
struct desk_config {
  actors::scheduler_actor scheduler;
  actors::tokenizer_actor tokenizer;
  std::shared_ptr<gateway::board> board; // who this gateway is, its limits and metrics
  std::uint32_t pipeline = 0;            // whose head these are
  handover_actor front = {};             // none: there is no other desk
  // Of a ticket, never 0: who can guess one can read another's stream.
  std::function<std::uint64_t()> next_key = random_key;
};

// The desk's state stays in desk.cpp, so it is spawned there.
desk_actor spawn_desk(caf::actor_system& system, desk_config config);

} // namespace baton::gateway
