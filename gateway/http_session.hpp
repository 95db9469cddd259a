// One HTTP connection: requests one after the other, answers whole or as server-sent events, or
// the step over to a WebSocket.
#pragma once

#include "gateway/connection.hpp"

namespace baton::gateway {

// Takes the socket and serves it on its strand until it ends. False, and the socket is left alone,
// if connections_max are open.
bool start_http_session(door_core& core, tcp::socket& socket);

} // namespace baton::gateway
