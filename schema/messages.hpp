// All messages between actors, in the order of the flow. Plain structs; FlatBuffers stays in
// codec.cpp. Fields on the wire are listed once, in api.fbs and wire.fbs: members/*.inc are
// generated from them, with their defaults and comments (generate_codec.py).
//
//   client --> [gateway] -reserve-> [scheduler] -granted-> [gateway]
//             [gateway] -submit-> [tokenizer] -admit-> [scheduler] -micro_batch-> [stage 0] -> ...
//             -> [stage N-1] [gateway] <-chunk- [detokenizer] <-tokens- [scheduler]
//             <-----------sampled----------------+
//
// To resume a ticket, a gateway (another one, or the same one after a link failure) sends resume.
// It gets granted again, then the chunks it lacks. A head without the ticket's log gets it rebuilt
// by reserve and submit, with the delivered tokens.
//
// Commands are verbs, facts are past. Three edges go against the flow: sampled, cancel, rejected. A
// message keeps its name through all hops. `lease` (never on the wire) holds link credit until the
// message is dropped.
#pragma once

#include "schema/error.hpp"
#include "schema/generation.hpp"
#include "schema/ids.hpp"
#include "schema/inference.hpp"
#include "schema/membership.hpp"
#include "schema/payload.hpp"
#include "schema/request_terms.hpp"
#include "schema/sampling.hpp"
#include "schema/sampling_defaults.hpp"
#include "schema/served_models.hpp"
#include "schema/step.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace baton {

// -- 1. A ticket first --

// Gateway to scheduler: requests a ticket. Nothing has been tokenized yet.
struct reserve {
#include "schema/members/reserve.inc"
};

struct granted {
#include "schema/members/granted.inc"
};

// How much of a choice was received: its first `index` tokens, and its end.
struct resume_point {
#include "schema/members/resume_point.inc"
  friend bool operator==(const resume_point&, const resume_point&) = default;
};

// The delivered part of a choice, sent to a head that has lost its log.
struct delivered_choice {
#include "schema/members/delivered_choice.inc"
  friend bool operator==(const delivered_choice&, const delivered_choice&) = default;
};

// Gateway to scheduler, client to gateway: continue this ticket after the received tokens. For its
// previous owner the ticket is cancelled. Answered by granted or rejected.
struct resume {
#include "schema/members/resume.inc"
};

// Ends a request before its first chunk, whatever component rejects it.
struct rejected {
#include "schema/members/rejected.inc"
};

// -- 2. The request --

struct chat_message {
#include "schema/members/chat_message.inc"
  friend bool operator==(const chat_message&, const chat_message&) = default;
};

using chat_prompt = std::vector<chat_message>;
using ids_prompt = std::vector<token_id>;
// A text, ids as they are, or a conversation for the chat template. Special tokens are not
// recognised in a conversation's contents.
using prompt = std::variant<std::string, ids_prompt, chat_prompt>;

// Whether the model's BOS tokens are put before a prompt. `usual`: before a text, not before a
// chat, whose template writes them.
enum class special_tokens : std::uint8_t { usual, added, omitted };

// Options for turning a prompt into ids, beside its text, conversation and tools. All but `special`
// apply to chat templates only.
struct template_options {
#include "schema/members/template_options.inc"
  friend bool operator==(const template_options&, const template_options&) = default;
};

// Gateway to tokenizer, after granted.
struct submit {
#include "schema/members/submit.inc"
  baton::lease lease;
};

// Tokenizer to scheduler: the same request as ids.
struct admit {
#include "schema/members/admit.inc"
};

enum class cancel_reason : std::uint8_t {
  client_gone = 1,
  client_asked = 2,
  slow_reader = 3,
  stop_text = 4, // the detokenizer found a stop string: an ordinary end
  deadline = 5,
  draining = 6,
  refused = 7,     // the tokenizer failed; `reason` gives the error
  client_lost = 8, // its connection failed: it may resume, if the ticket is resumable
};

// Any actor to scheduler: end this ticket (or one choice of it).
struct cancel {
  ticket_id ticket;
  std::optional<std::uint32_t> choice; // empty: all
  cancel_reason why = cancel_reason::client_asked;
  std::uint32_t tokens_kept = 0; // stop_text: tokens including the one that completed the string
  std::optional<error> reason;   // refused only
};

// -- 3. The step: step.hpp --

// -- 4. The way out --

enum class finish : std::uint8_t { none = 0, stop = 1, length = 2, cancelled = 3, failed = 4 };

// Scheduler to detokenizer. Starts with `begins`, ends once with finish != none.
struct tokens {
  ticket_id ticket;
  std::uint32_t choice = 0;
  std::uint32_t index = 0; // of the first of them in the output
  std::vector<sample> samples;
  // First message of a choice:
  bool begins = false;
  std::uint64_t request = 0;
  process_id gateway;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0; // of the prompt, found in the prefix cache
  baton::stopping stopping;
  std::int32_t logprobs = -1;
  std::uint64_t resume_key = 0;
  ids_prompt delivered{};        // tokens before `index`, whose text the gateway has
  bool continues_prompt = false; // as admitted
  reasoning_format reasoning = reasoning_format::none;
  bool begins_in_reasoning = false;
  // Last message of a choice:
  baton::finish finish = finish::none;
  std::uint32_t tokens_total = 0; // output tokens that count
  std::optional<error> failure;   // finish::failed and cancelled
  std::vector<float> embedding{}; // of the prompt, if it was requested and nothing failed
  // First message of a choice: each prompt token given those before it, if requested. The first has
  // its id alone.
  std::vector<sample> prompt_scores{};
  // First message of a choice: time from ticket to prompt ids, and from there to a step.
  std::uint64_t prepare_micros = 0, queue_micros = 0;
};

struct logprob_entry {
#include "schema/members/logprob_entry.inc"
  friend bool operator==(const logprob_entry&, const logprob_entry&) = default;
};

struct token_detail {
#include "schema/members/token_detail.inc"
  friend bool operator==(const token_detail&, const token_detail&) = default;
};

// Detokenizer to gateway: text for the client. Exactly one per choice has finish != none, and it is
// the last.
struct chunk {
#include "schema/members/chunk.inc"
  baton::lease lease;
};

// Detokenizer to gateway: the chunks of one step. Sent together, because waking a dozen threads for
// each token costs more than its text.
struct chunks {
#include "schema/members/chunks.inc"
  baton::lease lease;
};

// -- 5. Small services of the tokenizer --

struct tokenize {
#include "schema/members/tokenize.inc"
};

struct tokenized {
  std::uint64_t request = 0;
  std::vector<token_id> ids;
  std::vector<std::string> pieces; // one per id, bytes
  std::uint32_t max_model_len = 0;
  std::optional<error> failure;
};

struct detokenize {
#include "schema/members/detokenize.inc"
};

struct detokenized {
#include "schema/members/detokenized.inc"
};

// -- 6. Pipeline lifecycle --

// A shard that has loaded its layers, to the scheduler.
struct stage_ready {
#include "schema/members/stage_ready.inc"
};

// Root to agents, before `generations`, which are planned from this: the nodes, and the facts and
// keys of all joined machines, in each machine's own form. A remote agent that has stored them
// sends them back.
struct joined {
#include "schema/members/joined.inc"
};

// Head to root: an epoch of this generation is open.
struct serves {
#include "schema/members/serves.inc"
};

struct stage_address {
#include "schema/members/stage_address.inc"
};

// The KV of the shards of the previous epoch, for those of another generation.
struct kv_handover {
#include "schema/members/kv_handover.inc"
};

// Scheduler to every shard: a new epoch; forget the old one, connect to the receivers of its
// output.
struct open_epoch {
#include "schema/members/open_epoch.inc"
};

struct epoch_opened {
#include "schema/members/epoch_opened.inc"
};

// -- 7. Membership and supervision: membership.hpp --

// -- 8. SDK clients (through the gateway's ZeroMQ endpoint) --

struct list_models {
#include "schema/members/list_models.inc"
};

struct models {
#include "schema/members/models.inc"
};

// A client's request: the gateway turns it into reserve and submit, and answers with granted, chunk
// ..., or rejected.
struct generate {
  std::uint64_t request = 0;
  std::string model;
  prompt input;
  request_terms terms;
  std::int32_t priority = 0; // lower is served earlier; not 0 only if the server uses priorities
  bool is_resumable = false; // a lost connection does not end it: the client will resume
  std::string request_id{};  // the client's name for it: a repeated request runs once
  std::uint32_t prompt_tokens_max = 0; // keep only so many of the prompt's last tokens; 0: all
  std::string tools{};                 // of a chat: a JSON array of callable tools; or empty
  // The fields of sampling_defaults that the client did not specify: bits by sampling_field. The
  // model's default replaces their value, if it has one. Afterwards only max_tokens may remain set:
  // as a default, it is lowered to what the context allows.
  std::uint32_t unspecified = 0;
  baton::template_options template_options{}; // of a chat; the gateway sets local_seconds
};

using message =
    std::variant<reserve, granted, rejected, submit, admit, cancel, micro_batch, sampled, tokens,
                 chunk, tokenize, tokenized, detokenize, detokenized, stage_ready, open_epoch,
                 epoch_opened, hello, hello_ack, heartbeat, credit, status, model_card, load_report,
                 drain, query_status, cluster_status, list_models, models, generate, chunks, resume,
                 change_nodes, nodes_changed, generations, serves, joined, scale_model, remove_node,
                 group_values, infer, inferred, infer_batch, cancel_infer, served_models,
                 change_model, model_changed, model_drained, handler_metrics, load_refused>;

} // namespace baton
