// Converts OpenAI's request bodies (with vLLM's sampling parameters) to typed requests. Pure.
// Unsupported fields are refused by name; docs/apis/generation.md lists them.
//
// `user`, `safety_identifier` and `prompt_cache_key` are labels without effect on an answer: they
// are checked and dropped. `developer` is OpenAI's newer name for the role `system`. Text parts of
// a message are joined by newlines, as in vLLM.
#pragma once

#include "gateway/api/openai/calls/call_parser.hpp"
#include "gateway/base/stream_position.hpp"
#include "gateway/config/config.hpp"
#include "gateway/request/field_names.hpp"
#include "gateway/request/response_writer.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

enum class openai_api : std::uint8_t { chat, completions };

// The format of the answer.
struct reply_shape {
  openai_api api = openai_api::chat;
  std::string model; // as in the client's request; empty: not given
  bool is_stream = false;
  bool includes_usage = false;    // in a stream; other answers always have it
  bool has_running_usage = false; // in each event: the usage of the choice so far
  bool has_logprobs = false;
  bool names_tokens_by_id = false; // in logprobs: "token_id:123" in place of their text
  bool has_token_ids = false;      // the ids of the answer's tokens, and of the prompt's
  std::uint32_t prompts = 1;       // number of prompts; choices are numbered across all of them
  std::uint32_t choices = 1;       // of each prompt
  std::uint32_t best_of = 0; // answers drawn, of which the likeliest are returned; 0: no extra ones
  // Per prompt, the prefix of its answers; or none. Empty: the text of its tokens, which arrive
  // with the answer (chunk::prompt_details).
  std::vector<std::string> echo{};
  std::shared_ptr<const call_reading> calls{}; // set if tools may be called
  bool reads_reasoning = false;                // a chat with a model that may think first
  bool includes_reasoning = true;              // else it is read and left out
  // Whether the answer is read out of all of its text (answer_parser.hpp).
  bool is_parsed() const noexcept { return calls || reads_reasoning; }
};

enum class tool_choice : std::uint8_t { none, automatic, required, named };

struct asked_tool {
  std::string name;
  std::string schema; // of its arguments
  bool is_strict = false;
};

// The tools that an answer may or must call.
struct asked_tools {
  std::string text; // as the client wrote it, for the chat template
  std::vector<asked_tool> all;
  tool_choice choice = tool_choice::automatic;
  std::string named;
  bool is_parallel = true; // several calls in one answer
};

// A chat's wishes about the model's reasoning (openai_reasoning.hpp).
struct asked_reasoning {
  std::optional<bool> is_on{};  // nullopt: the template's default
  std::string effort{};         // empty: not given
  std::int32_t tokens_max = -1; // -1: no limit
  std::string param{};          // the field that asked
  bool is_optional = false;     // `is_on` for models that reason: others answer without
};

struct openai_generate {
  generate request;
  std::vector<generate> further{}; // for the prompts after the first
  bool add_generation_prompt = true;
  reply_shape shape;
  std::optional<asked_tools> tools{};    // applied by settle_calls (openai_tools.hpp)
  asked_reasoning reasoning{};           // applied by settle_reasoning (openai_reasoning.hpp)
  std::optional<stream_position> resume; // resume there; the request is the original one
  field_names client_names{};            // names of the fields in the client's request
};

// Errors: invalid_request, invalid_value, unsupported_parameter, with param.
result<openai_generate> parse_generation(openai_api api, std::string_view body,
                                         const request_limits& limits);

// vLLM's /tokenize: {"prompt" | "messages" and fields of the chat template, "model",
// "return_token_strs"}.
struct tokenize_call {
  std::string model;
  prompt input;
  bool add_generation_prompt = true;
  std::string tools{}; // for a chat
  baton::template_options template_options{};
  bool returns_pieces = false;
  field_names client_names{};
};
result<tokenize_call> parse_tokenize(std::string_view body, const request_limits& limits);

// vLLM's /detokenize: {"tokens", "model"}.
struct detokenize_call {
  std::string model;
  std::vector<token_id> ids;
};
result<detokenize_call> parse_detokenize(std::string_view body, const request_limits& limits);

} // namespace baton::gateway
