// One HTTP connection: requests one after the other, answers whole or as server-sent events, or
// the step over to a WebSocket.
#pragma once

#include "gateway/connections/connection.hpp"

namespace baton::gateway {

// Takes the socket and serves it on its strand until it ends. False, and the socket is left alone,
// if connections_max are open; the operator's door has a few more.
bool start_http_session(server_context& core, listener_kind listener, tcp::socket& socket);

} // namespace baton::gateway
