// All messages between actors, in the order of the flow. Plain structs; FlatBuffers stays in
// codec.cpp.
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
  std::uint64_t request = 0; // the gateway's number for this request, unique in its incarnation
  process_id gateway;        // receives granted, rejected, chunk
  std::string model;
  std::uint32_t choices = 1;
  std::uint32_t tokens_estimate = 0; // of prompt and output, an upper bound; corrected at admit
  std::int32_t priority = 0;         // lower is served earlier, if the server uses priorities
  std::uint64_t resume_key = 0;      // random: required to resume the ticket
  bool is_resumable = false;        // the client may resume: the ticket is kept for `resume_window`
  ticket_id ticket{};               // granted by an earlier incarnation of the head; else none
  std::string request_id{};         // the client's name, for repeated requests; empty: none
  std::uint64_t request_digest = 0; // of the request's content (schema/digest.hpp)
  bool was_admitted = false; // admitted by another pipeline before: exempt from bounds and drain
};

struct granted {
  std::uint64_t request = 0;
  ticket_id ticket;
  epoch_id epoch;
  std::uint64_t resume_key = 0; // to clients: to be returned with `resume`
  bool is_submitted = false;    // by this gateway or another before: existing output follows
};

// How much of a choice was received: its first `index` tokens, and its end.
struct resume_point {
  std::uint32_t index = 0;
  bool has_finish = false;
  friend bool operator==(const resume_point&, const resume_point&) = default;
};

// The delivered part of a choice, sent to a head that has lost its log.
struct delivered_choice {
  std::vector<token_id> ids; // of the output
  bool is_over = false;      // its end was delivered as well: nothing is left to do
  friend bool operator==(const delivered_choice&, const delivered_choice&) = default;
};

// Gateway to scheduler, client to gateway: continue this ticket after the received tokens. For its
// previous owner the ticket is cancelled. Answered by granted or rejected.
struct resume {
  std::uint64_t request = 0;
  process_id gateway;
  ticket_id ticket;
  std::uint64_t resume_key = 0;
  std::vector<resume_point> from; // one per choice
};

// Ends a request before its first chunk, whatever component rejects it.
struct rejected {
  std::uint64_t request = 0;
  ticket_id ticket; // none if it was never granted
  error reason;
  std::chrono::milliseconds retry_after{0};
  std::uint32_t queue_position = 0; // tickets waiting at that moment
};

// -- 2. The request --

struct chat_message {
  std::string role;
  std::string content;
  std::string name;           // empty: none
  std::string tool_calls{};   // of an assistant: a JSON array of {"id","type","function"}; or empty
  std::string tool_call_id{}; // of a tool: the call that it answers
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
  std::string kwargs{};    // further variables (chat_template_kwargs): a JSON object; or empty
  std::string documents{}; // a JSON array of objects; or empty
  bool continues_final =
      false; // the answer continues the last message, which the template leaves open
  // The time that strftime_now prints: the gateway's civil time on receipt, in seconds since 1970.
  // It travels with the request, so that rendering the template again gives the same prompt.
  // 0: not given, and the function does not exist.
  std::int64_t local_seconds = 0;
  special_tokens special = special_tokens::usual;
  friend bool operator==(const template_options&, const template_options&) = default;
};

// Gateway to tokenizer, after granted.
struct submit {
  std::uint64_t request = 0;
  process_id gateway;
  ticket_id ticket;
  prompt input;
  bool add_generation_prompt = true;
  request_terms terms;
  baton::lease lease;
  std::vector<delivered_choice>
      delivered{}; // of a ticket of an earlier incarnation: one per choice
  // of ids: rendered from a chat, so the answer starts a text of its own
  bool begins_text = false;
  std::uint32_t prompt_tokens_max = 0; // keep only so many of the prompt's last tokens; 0: all
  std::string tools{};                 // of a chat: a JSON array of callable tools; or empty
  bool parses_special = false; // of a text: special tokens that it spells out become those tokens
  // The model's default, if the client gave none: as many as the context allows, at most this. 0:
  // no default.
  std::uint32_t max_tokens_default = 0;
  baton::template_options template_options{}; // of a chat
};

// Tokenizer to scheduler: the same request as ids.
struct admit {
  std::uint64_t request = 0;
  process_id gateway;
  ticket_id ticket;
  std::vector<token_id> prompt_ids;
  request_terms terms;
  std::vector<delivered_choice> delivered{}; // as in submit
  bool continues_prompt = false;             // the answer's text continues the prompt's
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
  std::string text; // the token's bytes, not always valid UTF-8 alone
  token_id token = 0;
  float logprob = 0;
  bool is_control = false; // of the vocabulary: not part of an answer's text
  friend bool operator==(const logprob_entry&, const logprob_entry&) = default;
};

struct token_detail {
  logprob_entry chosen;
  std::vector<logprob_entry> top;
  std::uint32_t text_end = 0; // in the chunk's text, behind this token's
  friend bool operator==(const token_detail&, const token_detail&) = default;
};

// Detokenizer to gateway: text for the client. Exactly one per choice has finish != none, and it is
// the last.
struct chunk {
  std::uint64_t request = 0;
  ticket_id ticket;
  std::uint32_t choice = 0;
  std::uint32_t index = 0;           // output tokens that the text so far covers
  std::uint32_t count = 0;           // tokens newly covered, contiguous
  std::string text;                  // valid UTF-8
  std::vector<token_id> ids;         // the tokens newly covered
  std::vector<token_detail> details; // only if logprobs were asked for
  baton::finish finish = finish::none;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0; // so far
  std::string stop_text;           // the stop string that ended it, if one did
  std::uint32_t cached_tokens = 0; // of the prompt, found in the prefix cache
  std::optional<error> failure;
  baton::lease lease;
  std::uint32_t characters_before = 0; // characters before `text`, if this follows a resume
  std::vector<float> embedding{};      // with the end, if requested: of length 1
  // The prompt's tokens, if requested: before all text, in as many chunks as needed. The first
  // token of all has no logprob.
  std::vector<token_detail> prompt_details{};
  std::uint32_t prompt_from = 0;                      // index in the prompt of the first of them
  std::uint64_t prepare_micros = 0, queue_micros = 0; // with the end: as in tokens
};

// Detokenizer to gateway: the chunks of one step. Sent together, because waking a dozen threads for
// each token costs more than its text.
struct chunks {
  std::vector<chunk> all;
  baton::lease lease;
};

// -- 5. Small services of the tokenizer --

struct tokenize {
  std::uint64_t request = 0;
  process_id gateway;
  prompt input;
  bool add_generation_prompt = true;
  bool parses_special = false;                // as in submit; set by the gateway, never by a client
  std::string tools{};                        // as in submit
  baton::template_options template_options{}; // as in submit
};

struct tokenized {
  std::uint64_t request = 0;
  std::vector<token_id> ids;
  std::vector<std::string> pieces; // one per id, bytes
  std::uint32_t max_model_len = 0;
  std::optional<error> failure;
};

struct detokenize {
  std::uint64_t request = 0;
  process_id gateway;
  std::vector<token_id> ids;
};

struct detokenized {
  std::uint64_t request = 0;
  std::string text;
  std::optional<error> failure;
};

// -- 6. Pipeline lifecycle --

// A shard that has loaded its layers, to the scheduler.
struct stage_ready {
  process_id process;
  epoch_id incarnation;
  stage_index stage = 0;
  std::uint32_t stages = 0;
  std::uint32_t blocks = 0;          // KV blocks it has room for
  std::uint32_t block_positions = 0; // positions per block
  std::uint64_t model_hash = 0;      // all stages of a pipeline must agree
  std::string device;
  std::uint64_t kv_incarnation = 0; // identity of KV that outlives its process; 0: KV never does
  std::uint32_t swap_blocks = 0;    // of its swap space, which ends with the process
  std::uint32_t rank = 0;           // within its stage
  std::uint32_t width = 1;          // ranks that share the stage
  std::uint32_t generation = 0;     // of the plan that it belongs to
  bool pools = false;               // it can run its part of an embedding's steps
};

// Root to agents, before `generations`, which are planned from this: the nodes, and the facts and
// keys of all joined machines, in each machine's own form. A remote agent that has stored them
// sends them back.
struct joined {
  std::string facts; // cluster/machines/machine.hpp
  std::string keys;  // cluster/plan/addresses.hpp
  std::string nodes; // cluster/membership/membership.hpp
};

// Head to root: an epoch of this generation is open.
struct serves {
  std::uint32_t generation = 0;
};

struct stage_address {
  process_id process;
  epoch_id incarnation;
  std::string endpoint;
};

// The KV of the shards of the previous epoch, for those of another generation.
struct kv_handover {
  std::vector<std::uint64_t>
      kv_incarnations;             // stage_ready.kv_incarnation of the shards that have it
  std::vector<block_index> blocks; // blocks with contents; no process writes them any more
};

// Scheduler to every shard: a new epoch; forget the old one, connect to the receivers of its
// output.
struct open_epoch {
  epoch_id epoch;
  stage_index stage = 0;
  std::vector<stage_address> stages; // all, in order: [stage * width + rank]
  std::uint32_t rank = 0;
  std::uint32_t width = 1;          // ranks of each stage
  std::optional<kv_handover> takes; // to be taken over before the epoch opens, if possible
};

struct epoch_opened {
  epoch_id epoch;
  stage_index stage = 0;
  std::uint32_t rank = 0;
  bool has_taken = false; // took over all that was offered
};

// -- 7. Membership and supervision: membership.hpp --

// -- 8. SDK clients (through the gateway's ZeroMQ endpoint) --

struct list_models {
  std::uint64_t request = 0;
};

struct models {
  std::uint64_t request = 0;
  std::vector<model_card> cards;
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
                 change_model, model_changed, model_drained, handler_metrics>;

} // namespace baton
