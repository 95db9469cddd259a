// /v1/stream: several requests on one WebSocket, each with cancel and flow control.
#pragma once

#include "gateway/connections/connection.hpp"
#include "gateway/websocket/socket_requests.hpp"

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

namespace baton::gateway {

// Takes over the socket of an HTTP session after an upgrade request, and serves it until it ends.
// `who` is the authenticated principal of all requests on it.
void start_websocket_session(server_context& core, client_socket socket,
                             boost::beast::http::request<boost::beast::http::string_body> upgrade,
                             principal who, socket_origin origin);

} // namespace baton::gateway
