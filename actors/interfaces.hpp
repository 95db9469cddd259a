// The whole protocol on one page: every actor and the messages that it accepts. All messages are
// one-way; an answer is a message of its own. The structs are in schema/messages.hpp.
//
//   client --> gateway -reserve-> scheduler -granted-> gateway -submit-> tokenizer -admit->
//   scheduler -micro_batch-> stage 0 -> ... -> stage N-1 -sampled-> scheduler -tokens->
//   detokenizer -chunks-> gateway; stage N-1 -sampled-> stage 0, for the run-ahead
//
// A handle may be the actor itself or a proxy for one in another process (cluster/bus/proxy.hpp):
// its users see no difference.
//
// CAF is 0.17: no mail(), no actor_from_state, no inspect v2. Handlers take `const T&` (no copy) or
// `T&` (may move out, copies only if shared). Integers must match exactly. Requests have finite
// timeouts. An actor never chooses its own thread: its creator passes the spawn option.
#pragma once

#include "schema/messages.hpp"

#include <caf/all.hpp>

#include <functional>

namespace baton::actors {

// The state of this process's links to other processes.
struct peer_up {
  hello peer;
};
struct peer_down {
  process_id process;
  incarnation_id incarnation;
  std::string why;
};

// The tokens of one step, for the detokenizer beside the scheduler.
struct step_tokens {
  std::vector<tokens> all;
};

// A ticket is resumed; `is_open`: the scheduler still has it, else it has ended.
struct resume_text {
  resume what;
  bool is_open = false;
};

// Periodic tick for deadlines; sent by the process's ticker, in simulation by the clock.
struct tick {};

} // namespace baton::actors

#define BATON_LOCAL_MESSAGE(T) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(T)
BATON_LOCAL_MESSAGE(baton::reserve)
BATON_LOCAL_MESSAGE(baton::granted)
BATON_LOCAL_MESSAGE(baton::rejected)
BATON_LOCAL_MESSAGE(baton::submit)
BATON_LOCAL_MESSAGE(baton::admit)
BATON_LOCAL_MESSAGE(baton::cancel)
BATON_LOCAL_MESSAGE(baton::micro_batch)
BATON_LOCAL_MESSAGE(baton::sampled)
BATON_LOCAL_MESSAGE(baton::actors::step_tokens)
BATON_LOCAL_MESSAGE(baton::resume)
BATON_LOCAL_MESSAGE(baton::actors::resume_text)
BATON_LOCAL_MESSAGE(baton::chunks)
BATON_LOCAL_MESSAGE(baton::tokenize)
BATON_LOCAL_MESSAGE(baton::tokenized)
BATON_LOCAL_MESSAGE(baton::detokenize)
BATON_LOCAL_MESSAGE(baton::detokenized)
BATON_LOCAL_MESSAGE(baton::stage_ready)
BATON_LOCAL_MESSAGE(baton::open_epoch)
BATON_LOCAL_MESSAGE(baton::generations)
BATON_LOCAL_MESSAGE(baton::load_refused)
BATON_LOCAL_MESSAGE(baton::epoch_opened)
BATON_LOCAL_MESSAGE(baton::status)
BATON_LOCAL_MESSAGE(baton::model_card)
BATON_LOCAL_MESSAGE(baton::load_report)
BATON_LOCAL_MESSAGE(baton::drain)
BATON_LOCAL_MESSAGE(baton::query_status)
BATON_LOCAL_MESSAGE(baton::cluster_status)
BATON_LOCAL_MESSAGE(baton::list_models)
BATON_LOCAL_MESSAGE(baton::models)
BATON_LOCAL_MESSAGE(baton::generate)
BATON_LOCAL_MESSAGE(baton::actors::peer_up)
BATON_LOCAL_MESSAGE(baton::actors::peer_down)
BATON_LOCAL_MESSAGE(baton::actors::tick)
#undef BATON_LOCAL_MESSAGE

namespace baton::actors {

template <class... Messages>
using takes = caf::typed_actor<caf::reacts_to<Messages>...>;

// Actors' addresses on the bus: the same in every process of a role.
namespace well_known {
inline constexpr actor_id scheduler{1};
inline constexpr actor_id tokenizer{2};
inline constexpr actor_id gateway{3};
inline constexpr actor_id stage{4};
inline constexpr actor_id supervisor{5};
inline constexpr actor_id agent{6};
inline constexpr actor_id zmq_server{7}; // the gateway's ZeroMQ endpoint
inline constexpr actor_id client{8};     // an SDK client
inline constexpr actor_id group{9};      // a rank's inbox, for the other ranks of its stage
inline constexpr actor_id models{10};    // worker models, at root and gateways
} // namespace well_known

// Text to ids: chat template, byte-pair encoding, length checks. Not involved in decoding.
using tokenizer_actor = takes<submit, tokenize, detokenize>;

// Owns tickets, the sequence log and the KV manager; forms micro-batches; ends every ticket once.
using scheduler_actor = takes<reserve, admit, cancel, resume, sampled, stage_ready, epoch_opened,
                              generations, load_refused, peer_up, peer_down, drain, tick>;

// One shard of the pipeline: runs the engine, passes rows to the next stage or samples.
using stage_actor = takes<open_epoch, micro_batch, sampled, peer_up, peer_down>;

// Ids to text: UTF-8 buffering, stop strings, logprob texts; keeps text for resumed streams.
using detokenizer_actor = takes<step_tokens, resume_text, tick>;

// The requests of one gateway process, between client streams and the head. `reserve` and `submit`
// allow it to recreate a resumed ticket on another head.
using gateway_actor =
    takes<reserve, submit, granted, rejected, chunks, tokenized, detokenized, model_card,
          load_report, cluster_status, status, drain, peer_up, peer_down, tick>;

// Handles of actors by process, for sending answers; provided by cluster/ or by the simulation in
// tests.
struct directory {
  std::function<gateway_actor(process_id)> gateway;
  std::function<stage_actor(process_id)> stage;
};

} // namespace baton::actors
