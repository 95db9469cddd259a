// The JSON messages of /v1/stream, both ways (docs/apis/websocket.md). Pure.
//
//   client: start, resume, cancel, ack        server: granted, tokens, done, error
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace baton::gateway {

struct socket_start {
  std::string id;
  openai_generate call;
  std::optional<std::uint32_t> window; // unacknowledged tokens that may be in flight
};
struct socket_resume { // a request of another socket or of an earlier gateway process
  std::string id;
  std::string model; // empty: the default model
  stream_position position;
  std::optional<std::uint32_t> window;
};
struct socket_cancel {
  std::string id;
};
struct socket_ack {
  std::string id;
  std::uint32_t index = 0; // the client has processed the output tokens up to this one
  std::uint32_t choice = 0;
  std::optional<std::uint32_t> window; // replaces the window
};
using socket_message = std::variant<socket_start, socket_resume, socket_cancel, socket_ack>;

struct socket_mistake {
  error reason;
  std::string id;      // of the request concerned, if the message contains it
  bool is_json = true; // false: the text is not JSON
};

std::variant<socket_message, socket_mistake> parse_socket_message(std::string_view text,
                                                                  const gateway_config& config);

std::string granted_text(std::string_view id, const granted& grant);
// Requires: c has text, tokens or details.
std::string tokens_text(std::string_view id, const chunk& c, const reply_shape& shape);
// Ends one choice; `is_last` if no choice remains.
std::string done_text(std::string_view id, const chunk& c, const reply_shape& shape, bool is_last);
// `id` empty: the error concerns the socket, not one request.
std::string socket_error_text(std::string_view id, const error& e);
std::string socket_refusal_text(std::string_view id, const rejected& no);

} // namespace baton::gateway
