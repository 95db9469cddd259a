// OpenAI's request bodies (with vLLM's further sampling parameters) to typed requests. Pure: bytes
// in, values out. What is not supported is refused by name; docs/compatibility.md has the list.
//
// `user`, `safety_identifier` and `prompt_cache_key` are labels that cannot change an answer: they
// are checked and dropped. `developer` is OpenAI's newer word for the role `system`. Text parts of
// one message are joined by line ends, as in vLLM.
#pragma once

#include "gateway/api/openai/call_parser.hpp"
#include "gateway/base/field_words.hpp"
#include "gateway/base/speaker.hpp"
#include "gateway/base/stream_position.hpp"
#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

enum class openai_api : std::uint8_t { chat, completions };

// How the answer is to look.
struct reply_shape {
  openai_api api = openai_api::chat;
  std::string model; // as the client named it; empty: it did not
  bool is_stream = false;
  bool includes_usage = false;    // in a stream; without one it is always there
  bool has_running_usage = false; // and in each of its events, that of the choice so far
  bool has_logprobs = false;
  std::uint32_t prompts = 1; // that are answered; choices are counted on through all of them
  std::uint32_t choices = 1; // of each prompt
  std::uint32_t best_of = 0; // answers drawn, of which the likeliest are given; 0: as many
  // Per prompt, what its answers begin with; or none. An empty one: what its tokens say, which come
  // with the answer (chunk::prompt_details).
  std::vector<std::string> echo{};
  std::shared_ptr<const call_reading> calls{}; // tools may be called
};

enum class tool_choice : std::uint8_t { none, automatic, required, named };

struct asked_tool {
  std::string name;
  std::string schema; // of its arguments
  bool is_strict = false;
};

// What an answer may call, or must.
struct asked_tools {
  std::string text; // the array as the client wrote it: for the chat template
  std::vector<asked_tool> all;
  tool_choice choice = tool_choice::automatic;
  std::string named;
  bool is_parallel = true; // several calls in one answer
};

struct openai_generate {
  generate request;
  std::vector<generate> further{}; // for the prompts behind the first one
  bool add_generation_prompt = true;
  reply_shape shape;
  std::optional<asked_tools> tools{};    // settle_calls (openai_tools.hpp) once the model is known
  std::optional<stream_position> resume; // go on there; the request is the one that was made then
  field_words words{};                   // what the client calls its fields
};

// Errors: invalid_request, invalid_value, unsupported_parameter, with param.
result<openai_generate> parse_generation(openai_api api, std::string_view body,
                                         const request_limits& limits);

// vLLM's /tokenize: {"prompt" | "messages" and what goes to the chat template with them, "model",
// "return_token_strs"}.
struct tokenize_call {
  std::string model;
  prompt input;
  bool add_generation_prompt = true;
  std::string tools{}; // of a chat
  baton::template_options template_options{};
  bool returns_pieces = false;
  api_family speaks = api_family::openai; // in whose words it is answered
  field_words words{};
};
result<tokenize_call> parse_tokenize(std::string_view body, const request_limits& limits);

// vLLM's /detokenize: {"tokens", "model"}.
struct detokenize_call {
  std::string model;
  std::vector<token_id> ids;
};
result<detokenize_call> parse_detokenize(std::string_view body, const request_limits& limits);

} // namespace baton::gateway
