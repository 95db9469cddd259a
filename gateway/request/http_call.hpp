// The parts of an HTTP request that routes look at, and the listener that it came through. Pure.
#pragma once

#include "schema/messages.hpp"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace baton::gateway {

// The listener that a connection came through.
enum class listener_kind : std::uint8_t {
  clients,
  admin,
  ollama,
  torchserve_inference,
  torchserve_management,
  torchserve_metrics
};
constexpr bool is_torchserve(listener_kind listener) noexcept {
  return listener >= listener_kind::torchserve_inference;
}
// Listeners on which many clients must not lock the operator out.
constexpr bool is_operators(listener_kind listener) noexcept {
  return listener != listener_kind::clients && listener != listener_kind::ollama &&
         listener != listener_kind::torchserve_inference;
}
// Listeners that use the certificate. The admin listener is on loopback, without TLS.
constexpr bool is_for_tls(listener_kind listener) noexcept {
  return listener != listener_kind::admin;
}

// Views into the parser's memory.
struct http_call {
  std::string_view method;
  std::string_view target;
  std::string_view host;
  std::string_view origin;
  std::string_view accept;
  std::string_view content_type;
  std::string_view content_encoding;
  std::string_view authorization;
  std::string_view api_key; // X-Api-Key, the key of Anthropic's clients
  std::string_view last_event_id;
  std::string_view infer_header_length; // Inference-Header-Content-Length
  std::string_view if_none_match;
  std::string_view accept_encoding;
  std::string_view protocols; // that a WebSocket's client offers
  // The call's headers, for the handlers of worker models; null: there are none to pass on.
  std::function<std::vector<header_field>()> headers_for_handlers;
  bool is_websocket_upgrade = false;
  bool is_http_1_0 = false;
  listener_kind listener = listener_kind::clients;
  std::string_view body;
};

} // namespace baton::gateway
