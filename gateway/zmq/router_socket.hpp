// The socket of a ZeroMQ server: a ROUTER whose messages are a routing id and one packet
// (docs/reference/protocol.md). Used by one thread. Heavy: ZeroMQ.
#pragma once

#include "gateway/config/config.hpp"
#include "schema/codec/codec.hpp"
#include "schema/packet.hpp"
#include "schema/result.hpp"

#include <zmq.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace baton::gateway {

struct router_bounds {
  int send_frames_max = 0; // for a peer that does not read
  int receive_frames_max = 0;
  std::size_t body_bytes_max = 0; // of a message
};

class router_socket {
public:
  // -> the endpoint with the actual port. Errors: address_in_use, io_failed.
  result<std::string> bind(const std::string& endpoint, const router_bounds& bounds);
  void* handle() noexcept { return socket_.handle(); }

  // False: the peer's queue is full, or the peer is gone.
  bool send(const std::string& id, const frames& f);
  // Answers a hello that is rejected.
  void refuse(const gateway_config& own, const std::string& id, const hello& h, const error& why);

  // The routing id and at most two further parts, one more than allowed. Empty: no message.
  std::vector<zmq::message_t> receive();
  // The packet of a received message, copied from its parts. Errors: bad_frame.
  static result<frames> packet_of(const std::vector<zmq::message_t>& parts);

private:
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
};

} // namespace baton::gateway
