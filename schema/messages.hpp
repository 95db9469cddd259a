// Everything that actors say to one another, in the order of the flow. Plain structs; FlatBuffers
// stays in codec.cpp.
//
//   client -> [gateway] -reserve-> [scheduler] -granted-> [gateway]
//             [gateway] -submit-> [tokenizer] -admit-> [scheduler] -micro_batch-> [stage 0] -> ...
//             -> [stage N-1] [gateway] <-chunk- [detokenizer] <-tokens- [scheduler]
//             <-----------sampled----------------+
//
// Who comes back to a ticket (another gateway, or the same one behind a link that fell) says resume
// and gets granted again, then what it has not had. A head that has lost its log is told of a
// ticket by reserve and submit once more, with the tokens that were delivered.
//
// Commands are verbs, facts are past. Three edges go against the flow: sampled, cancel, rejected.
// A message keeps its name through all hops. `lease` (never on the wire) holds link credit until
// the message is dropped.
#pragma once

#include "schema/error.hpp"
#include "schema/generation.hpp"
#include "schema/ids.hpp"
#include "schema/inference.hpp"
#include "schema/membership.hpp"
#include "schema/payload.hpp"
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

// Gateway to scheduler: may this request come in? Nothing has been tokenized yet.
struct reserve {
  std::uint64_t request = 0; // the gateway's number for this request, unique in its life
  node_id gateway;           // who gets granted, rejected, chunk
  std::string model;
  std::uint32_t choices = 1;
  std::uint32_t tokens_estimate =
      0;                        // prompt and output, an upper guess from bytes; corrected at admit
  std::int32_t priority = 0;    // lower is served earlier, where the server goes by it
  std::uint64_t resume_key = 0; // random: who knows it may come back to the ticket
  bool is_resumable = false;    // the client may do so: it is kept for `resume_window`
  ticket_id ticket{};           // of an earlier life of the head, which has granted it; else none
  std::string request_id{};     // by which its client asks again; empty: by none
  std::uint64_t request_digest = 0; // of what it asks for (schema/digest.hpp)
  bool goes_on = false; // let in by another pipeline before: bounds and drain are not for it
};

struct granted {
  std::uint64_t request = 0;
  ticket_id ticket;
  epoch_id epoch;
  std::uint64_t resume_key = 0; // to clients: comes back with `resume`
  bool is_submitted = false;    // before, or by a gateway before: what there is of it follows
};

// How much of a choice has been taken in: its first `index` tokens, and its end.
struct resume_point {
  std::uint32_t index = 0;
  bool has_finish = false;
  friend bool operator==(const resume_point&, const resume_point&) = default;
};

// What a client has had of a choice, told to a head that has lost its log.
struct delivered_choice {
  std::vector<token_id> ids; // of the output
  bool is_over = false;      // its end as well: nothing is left to do
  friend bool operator==(const delivered_choice&, const delivered_choice&) = default;
};

// Gateway to scheduler, client to gateway: go on with this ticket behind what was taken in. Whoever
// had it before hears that it is cancelled. Answered by granted or rejected.
struct resume {
  std::uint64_t request = 0;
  node_id gateway;
  ticket_id ticket;
  std::uint64_t resume_key = 0;
  std::vector<resume_point> from; // one per choice
};

// Ends a request before its first chunk, whoever found the reason.
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
  std::string tool_call_id{}; // of a tool: which call it answers
  friend bool operator==(const chat_message&, const chat_message&) = default;
};

using chat_prompt = std::vector<chat_message>;
using ids_prompt = std::vector<token_id>;
// A text, ids as they are, or a conversation for the chat template, in whose contents no special
// tokens are found.
using prompt = std::variant<std::string, ids_prompt, chat_prompt>;

// Whether the tokens that the model's prompts begin with (BOS) are put before a prompt. `usual`:
// before a text, not before a chat, whose template writes them.
enum class special_tokens : std::uint8_t { usual, added, omitted };

// How a prompt becomes ids, beside its text, its conversation and its tools. All but `special` is
// for a chat's template.
struct template_options {
  std::string kwargs{};         // further variables (chat_template_kwargs): a JSON object; or empty
  std::string documents{};      // a JSON array of objects; or empty
  bool continues_final = false; // the answer goes on with the last message, whose turn stays open
  // What strftime_now prints: the civil time of the gateway when it took the request, in seconds
  // from 1970 on. It goes with the request: a template that is rendered once more makes the same
  // prompt. 0: nobody has said it, and there is no such function.
  std::int64_t local_seconds = 0;
  special_tokens special = special_tokens::usual;
  friend bool operator==(const template_options&, const template_options&) = default;
};

// Gateway to tokenizer, after granted.
struct submit {
  std::uint64_t request = 0;
  node_id gateway;
  ticket_id ticket;
  prompt input;
  bool add_generation_prompt = true;
  std::uint32_t choices = 1;
  sampling_params sampling;
  stopping stop;
  bool tokens_max_given = false;         // else: all that the context leaves
  std::chrono::milliseconds deadline{0}; // 0: none
  std::string cache_salt;                // KV is shared only between requests with the same one
  baton::lease lease;
  std::vector<delivered_choice> delivered{}; // of a ticket of an earlier life: one per choice
  bool begins_text = false;                  // of ids: of a chat, the answer is a text of its own
  std::uint32_t prompt_tokens_max = 0;       // so many of the prompt's last tokens; 0: all
  std::string tools{};         // of a chat: a JSON array of what its answer may call; or empty
  bool embeds = false;         // wanted is the prompt's embedding, and no token
  bool parses_special = false; // of a text: special tokens that it spells out are these tokens
  // The model's, where the client gave none: as many as the context leaves, and no more than these;
  // 0: there is none.
  std::uint32_t tokens_max_default = 0;
  baton::template_options template_options{}; // of a chat
};

// Tokenizer to scheduler: the same request as ids.
struct admit {
  std::uint64_t request = 0;
  node_id gateway;
  ticket_id ticket;
  std::vector<token_id> prompt_ids;
  std::uint32_t choices = 1;
  sampling_params sampling;
  stopping stop;
  bool tokens_max_given = false;
  std::chrono::milliseconds deadline{0};
  std::string cache_salt;
  std::vector<delivered_choice> delivered{}; // as in submit
  bool continues_prompt = false;             // the answer's text goes on with the prompt's
  bool embeds = false;                       // as in submit
};

enum class cancel_reason : std::uint8_t {
  client_gone = 1,
  client_asked = 2,
  slow_reader = 3,
  stop_text = 4, // the detokenizer found a stop string: an ordinary end
  deadline = 5,
  draining = 6,
  refused = 7,     // the tokenizer could not make ids of it; `reason` says why
  client_lost = 8, // its connection fell: it may come back, if the ticket is resumable
};

// Anyone to scheduler: please end this ticket (or one choice of it).
struct cancel {
  ticket_id ticket;
  std::optional<std::uint32_t> choice; // nothing: all
  cancel_reason why = cancel_reason::client_asked;
  std::uint32_t tokens_kept =
      0; // stop_text: tokens up to and with the one that completed the stop string
  std::optional<error> reason; // refused only
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
  node_id gateway;
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
  std::vector<float> embedding{}; // of the prompt, if it was asked for and nothing failed
  // First message of a choice: each of the prompt's tokens behind those before it, if that was
  // asked for; of the first the id alone.
  std::vector<sample> prompt_scores{};
  // First message of a choice: from the ticket to the prompt's ids, and from there to a step.
  std::uint64_t prepare_micros = 0, queue_micros = 0;
};

struct logprob_entry {
  std::string text; // the token's bytes, not always valid UTF-8 alone
  token_id token = 0;
  float logprob = 0;
  bool is_control = false; // of the vocabulary: no text of an answer
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
  std::uint32_t index = 0;           // the text ends with this many output tokens covered
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
  std::uint32_t characters_before = 0; // of text before `text`, if this is behind a resume
  std::vector<float> embedding{};      // with the end of one that was asked for: of length 1
  // The prompt's tokens, if these were asked for: ahead of all text, in as many chunks as it takes.
  // The first token of all has no logprob.
  std::vector<token_detail> prompt_details{};
  std::uint32_t prompt_from = 0;                      // which of the prompt's is the first of them
  std::uint64_t prepare_micros = 0, queue_micros = 0; // with the end: as in tokens
};

// Detokenizer to gateway: the chunks of one step. Together, because waking a dozen threads for each
// token costs more than its text.
struct chunks {
  std::vector<chunk> all;
  baton::lease lease;
};

// -- 5. Small services of the tokenizer --

struct tokenize {
  std::uint64_t request = 0;
  node_id gateway;
  prompt input;
  bool add_generation_prompt = true;
  bool parses_special = false;                // as in submit; the gateway's, whatever a client says
  std::string tools{};                        // as in submit
  baton::template_options template_options{}; // as in submit
};

struct tokenized {
  std::uint64_t request = 0;
  std::vector<token_id> ids;
  std::vector<std::string> pieces; // one per id, bytes
  std::uint32_t context_max = 0;
  std::optional<error> failure;
};

struct detokenize {
  std::uint64_t request = 0;
  node_id gateway;
  std::vector<token_id> ids;
};

struct detokenized {
  std::uint64_t request = 0;
  std::string text;
  std::optional<error> failure;
};

// -- 6. The pipeline's life --

// A shard that has loaded its layers, to the scheduler.
struct stage_ready {
  node_id node;
  epoch_id node_epoch;
  stage_index stage = 0;
  std::uint32_t stages = 0;
  std::uint32_t blocks = 0;          // KV blocks it has room for
  std::uint32_t block_positions = 0; // positions per block
  std::uint64_t model_hash = 0;      // all stages of a pipeline must agree
  std::string device;
  std::uint64_t kv_life = 0; // KV that outlived its process has the one it had; 0: it never does
  std::uint32_t swap_blocks = 0; // of its swap space, which goes with the process
  std::uint32_t rank = 0;        // within its stage
  std::uint32_t width = 1;       // ranks that share the stage
  std::uint32_t generation = 0;  // of the plan that it is a shard of
  bool pools = false;            // its part of an embedding's steps it can do
};

// Root to agents, ahead of `generations`, which are planned from these: which nodes there are, the
// facts and the keys of all machines that have joined, as each machine notes them. An agent
// elsewhere that has noted them says them back.
struct joined {
  std::string facts; // cluster/plan/machine.hpp
  std::string keys;  // cluster/plan/addresses.hpp
  std::string nodes; // cluster/plan/membership.hpp
};

// Head to root: an epoch of this generation is open.
struct serves {
  std::uint32_t generation = 0;
};

struct stage_address {
  node_id node;
  epoch_id node_epoch;
  std::string endpoint;
};

// The KV of the shards that ran the epoch before, for those of another generation.
struct kv_handover {
  std::vector<std::uint64_t> lives; // stage_ready.kv_life of those that have it
  std::vector<block_index> blocks;  // which hold something; nobody writes there any more
};

// Scheduler to every shard: a new epoch; forget the old one, connect to those that hear from it.
struct open_epoch {
  epoch_id epoch;
  stage_index stage = 0;
  std::vector<stage_address> stages; // all, in order: [stage * width + rank]
  std::uint32_t rank = 0;
  std::uint32_t width = 1;          // ranks of each stage
  std::optional<kv_handover> takes; // before it opens, if it can
};

struct epoch_opened {
  epoch_id epoch;
  stage_index stage = 0;
  std::uint32_t rank = 0;
  bool has_taken = false; // all that it was to take
};

// -- 7. Membership and supervision: membership.hpp --

// -- 8. SDK clients (through the gateway's ZeroMQ door) --

struct list_models {
  std::uint64_t request = 0;
};

struct models {
  std::uint64_t request = 0;
  std::vector<model_card> cards;
};

// A client's request: the gateway makes reserve and submit of it, and answers with granted, chunk
// ..., or rejected.
struct generate {
  std::uint64_t request = 0;
  std::string model;
  prompt input;
  std::uint32_t choices = 1;
  sampling_params sampling;
  stopping stop;
  bool tokens_max_given = false;
  std::chrono::milliseconds deadline{0};
  std::string cache_salt; // prefixes are cached for requests with the same one
  std::int32_t priority =
      0; // lower is served earlier; others than 0 only where the server goes by it
  bool is_resumable = false; // a fallen connection does not end it: the client will come back
  std::string request_id{};  // the client's name for it: asked twice, it is done once
  std::uint32_t prompt_tokens_max = 0; // so many of the prompt's last tokens; 0: all
  std::string tools{}; // of a chat: a JSON array of what its answer may call; or empty
  bool embeds = false; // wanted is the prompt's embedding, and no token
  // Of the fields of sampling_defaults, those that nobody has said: bits by sampling_field. The
  // model's default takes the place of their value, if it has one. Once it has, tokens_max alone is
  // left: it is a default, and the context may leave fewer.
  std::uint32_t unsaid = 0;
  baton::template_options template_options{}; // of a chat; local_seconds is the gateway's to say
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
