// The actor between the servers' streams and the head of one pipeline. It takes each request
// through reserve, granted and submit, and delivers chunks to the request's stream. When a client
// disconnects, it cancels at the scheduler at once. It never touches a socket and never waits for a
// server.
//
//   open_generate -> reserving --granted--> running --last finish--> (done)
//                     |  |  |                |   |
//                     |  |  +-rejected-------|---+-- failed chunk --> (failed)
//                     |  +-close--> leaving  +-close, slow reader--> cancel --> (done)
//                     +-no answer--> leaving      |
//                                       +--granted--> cancel --> (done)
//
// If the head or its link fails, pending requests are reserved again and tickets are resumed when
// the head is back. A head that does not know a ticket gets a replay of the request with the
// delivered tokens, and continues after them. `open_resume` comes from a client of another gateway.
//
// For a ticket that another gateway opened, the head sends the original request ahead of the grant.
// With it this gateway can replay the request to another head.
//
//   running --head lost, gap--> resuming --granted--> running
//   open_resume -----------------^  |
//                                   +-rejected--> reserving again, if all of it is known here;
//                                                 else (failed)
//
// A request that the head cannot take now, and that has no grant yet, goes back to the router
// (request_router.hpp) if another pipeline may take it. A stream migrates when its pipeline has
// been away for move_patience (outage.hpp) and another one is ready. It continues there after the
// delivered tokens with a new ticket; that grant cancels the old ticket. Without a grant the stream
// returns to its old ticket and waits here. At each moment exactly one pipeline client owns the
// request.
//
//   running, resuming --away--> reserving elsewhere --granted--> running, with a new ticket
//                                   +-refused, lost: the next one; none left--> resuming here
//
// A gap is a chunk that does not follow the delivered text. The missing text is requested up to
// gaps_max times; then the request fails.
#pragma once

#include "actors/interfaces.hpp"
#include "gateway/base/streams.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/tracing/tracer.hpp"

#include <caf/all.hpp>

#include <memory>
#include <string>

namespace baton::gateway {

// Messages from the servers, local only. `out` gets the answers; `request.request` is set from its
// number.
struct open_generate {
  std::shared_ptr<stream> out;
  generate request;
  bool add_generation_prompt = true;
  bool is_stream = false;                       // the client can resume if this gateway fails
  std::shared_ptr<quota_lease> lease = nullptr; // of the principal's key; null: it has none
  inflight_lease inflight = nullptr;            // set by the router for the chosen pipeline
  trace_handle trace = nullptr;                 // null: not traced
};
struct open_resume {
  std::shared_ptr<stream> out;
  std::string model;
  ticket_id ticket;
  std::uint64_t resume_key = 0;
  std::vector<resume_point> from; // one per choice
  std::shared_ptr<quota_lease> lease = nullptr;
  inflight_lease inflight = nullptr;
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

struct open_entry; // pipeline_client_state.hpp
// Pipeline client to router, which finds another pipeline or delivers the refusal; then router to
// the other pipeline's client.
struct handover {
  std::shared_ptr<open_entry> entry;
  rejected why;
};
// The stream continues elsewhere or has ended, and no longer needs this ticket. Goes through the
// router to the pipeline that granted it.
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

// The servers send to this actor: the router, or a single pipeline client.
using request_router_actor =
    actors::takes<open_generate, open_resume, open_tokenize, open_detokenize, close_request>;
using handover_actor = actors::takes<handover, ticket_left>;

// Handles messages of the head (gateway_actor) and of the servers. Converts to both.
using pipeline_client_actor =
    actors::gateway_actor::extend<caf::reacts_to<open_generate>, caf::reacts_to<open_resume>,
                                  caf::reacts_to<open_tokenize>, caf::reacts_to<open_detokenize>,
                                  caf::reacts_to<close_request>, caf::reacts_to<handover>,
                                  caf::reacts_to<ticket_left>>;

std::uint64_t random_key(); // from the system's entropy source

// Settings of one pipeline client. Handles may be proxies for actors of the head's process.
struct pipeline_client_config {
  actors::scheduler_actor scheduler;
  actors::tokenizer_actor tokenizer;
  std::shared_ptr<gateway::gateway_state> state; // identity, limits and metrics of this gateway
  std::uint32_t pipeline = 0;                    // the index of the pipeline
  handover_actor router = {};                    // null: there is no other pipeline
  // Makes resume keys, never 0. A key must not be guessable: it grants access to the stream.
  std::function<std::uint64_t()> next_key = random_key;
};

// Defined in pipeline_client.cpp, with the actor's behavior.
pipeline_client_actor spawn_pipeline_client(caf::actor_system& system,
                                            pipeline_client_config config);

} // namespace baton::gateway
