// From the events of a request to the messages of its socket.
#pragma once

#include "gateway/websocket/socket_request.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

// Appends the messages of `r` that are ready and that its window allows; true if the request has
// ended. An exception ends only this request.
bool append_events(const std::string& id, socket_request& r, std::vector<std::string>& out);

} // namespace baton::gateway
