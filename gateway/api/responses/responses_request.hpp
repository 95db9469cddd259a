// Converts OpenAI's Responses API (/v1/responses) to typed requests: the same conversation, tools
// and constraint as a chat's. The answer repeats the request's fields, so they are kept. Pure.
// Unsupported fields are refused by name; docs/apis/responses.md lists them.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/config/config.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

namespace baton::gateway {

// The answer's fields that do not depend on the generated text.
struct response_shape {
  std::string model; // as in the client's request; empty: not given
  std::string asked; // an object: the response's members from the request
  bool is_stream = false;
  bool is_background = false; // continues without its client
  bool is_stored = false;
  std::shared_ptr<const call_reading> calls{}; // set if tools may be called
  bool reads_reasoning = false;                // as in reply_shape
  bool includes_encrypted = false;             // items of reasoning have `encrypted_content`
};

struct response_create {
  openai_generate call; // its input: only the items, without instructions
  response_shape shape;
  std::string instructions;
  std::string previous; // id of the response to continue; empty: none
};

// This API's names of the request's fields.
field_names response_field_names();

// Errors: invalid_request, invalid_value, unsupported_parameter, with param ("input[2].content").
// Only one gateway has a stored response, so several at one address refuse them.
result<response_create> parse_response(std::string_view body, const gateway_config& config);

// The answer includes its sampling parameters: adds the model's defaults for fields not given.
void add_model_defaults(const sampling_defaults& of_model, response_create& out);

// Names of all fields of the body.
std::set<std::string, std::less<>> response_fields_of(const gateway_config& config);

// An operation on a stored response.
struct response_question {
  enum class kind : std::uint8_t { whole, events, cancel, remove };
  kind what = kind::whole;
  std::string id;
  std::optional<std::uint64_t> starting_after; // the sequence number of the last event received
};
// A parsed request to one of the API's routes (base/api_call.hpp).
struct response_call {
  std::variant<response_create, response_question> what;
};

// `target`: /v1/responses/{id}, optionally /cancel, and a query. Errors: invalid_value,
// unsupported_parameter.
result<response_question> parse_response_question(std::string_view method, std::string_view target);

} // namespace baton::gateway
