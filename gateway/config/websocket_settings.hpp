// The limits of a WebSocket of /v1/stream, over any transport.
#pragma once

#include "gateway/config/config.hpp"

#include <boost/beast/websocket/stream.hpp>

namespace baton::gateway {

template <class Layer>
void apply_limits(const gateway_config& config, boost::beast::websocket::stream<Layer>& socket) {
  boost::beast::websocket::stream_base::timeout times{};
  times.handshake_timeout = config.http_bounds.header_timeout;
  times.idle_timeout = config.websocket.idle_timeout;
  times.keep_alive_pings = true;
  socket.set_option(times);
  socket.read_message_max(config.websocket.message_bytes_max);
  socket.text(true);
}

} // namespace baton::gateway
