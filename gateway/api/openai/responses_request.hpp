// OpenAI's Responses API (/v1/responses) to typed requests: what is asked for becomes the same
// conversation, tools and constraint as a chat's, and the words in which it was asked are kept for
// the answer, which repeats them. Pure. What is not supported is refused by name;
// docs/compatibility.md has the list.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
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

namespace baton::gateway {

// What the answer says besides what is drawn.
struct response_shape {
  std::string model; // as the client named it; empty: it did not
  std::string asked; // an object: members of the response that are the request's
  bool is_stream = false;
  bool is_background = false; // goes on without its client
  bool is_stored = false;
  std::shared_ptr<const call_reading> calls{}; // tools may be called
};

struct response_create {
  openai_generate call; // its input: the items alone, without instructions
  response_shape shape;
  std::string instructions;
  std::string previous; // the response whose conversation goes on; empty: none
};

// What this API calls the fields of a request.
field_words response_words();

// Errors: invalid_request, invalid_value, unsupported_parameter, with param ("input[2].content").
// Stored responses are one gateway's own: where several share an address they are refused.
result<response_create> parse_response(std::string_view body, const gateway_config& config);

// The answer repeats with what its tokens are drawn: where the client said nothing, the model's.
void tell_defaults(const sampling_defaults& of_model, response_create& out);

// The names that a body may have.
std::set<std::string, std::less<>> response_fields_of(const gateway_config& config);

// What is asked of a stored response.
struct response_question {
  enum class kind : std::uint8_t { whole, events, cancel, remove };
  kind what = kind::whole;
  std::string id;
  std::optional<std::uint64_t> starting_after; // the sequence number of the last event that came
};
// `target`: /v1/responses/{id}, perhaps /cancel, and a query. Errors: invalid_value,
// unsupported_parameter.
result<response_question> parse_response_question(std::string_view method, std::string_view target);

} // namespace baton::gateway
