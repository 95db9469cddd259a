// The JSON messages of /v1/stream, both ways (docs/websocket.md). Pure.
//
//   client: start, resume, cancel, ack        server: granted, tokens, done, error
#pragma once

#include "gateway/api/openai/openai_request.hpp"
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
  std::optional<std::uint32_t> window; // tokens that may be on the way unacknowledged
};
struct socket_resume { // a request of another socket, or of another life of the gateway
  std::string id;
  std::string model; // empty: the first
  stream_position position;
  std::optional<std::uint32_t> window;
};
struct socket_cancel {
  std::string id;
};
struct socket_ack {
  std::string id;
  std::uint32_t index = 0; // the output tokens up to here were taken in
  std::uint32_t choice = 0;
  std::optional<std::uint32_t> window; // a new one
};
using socket_message = std::variant<socket_start, socket_resume, socket_cancel, socket_ack>;

struct socket_mistake {
  error reason;
  std::string id;      // of the request it is about, if the message named one
  bool is_json = true; // false: the text was not even that
};

std::variant<socket_message, socket_mistake> parse_socket_message(std::string_view text,
                                                                  const gateway_config& config);

std::string granted_text(std::string_view id, const granted& told);
// Requires: c has text, tokens or details to tell.
std::string tokens_text(std::string_view id, const chunk& c, const reply_shape& shape);
// The end of one choice; `is_last` if no choice is left.
std::string done_text(std::string_view id, const chunk& c, const reply_shape& shape, bool is_last);
// `id` empty: about the socket, not one request.
std::string socket_error_text(std::string_view id, const error& e);
std::string socket_refusal_text(std::string_view id, const rejected& no);

} // namespace baton::gateway
