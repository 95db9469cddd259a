#include "gateway/zmq/router_socket.hpp"

#include "actors/interfaces.hpp"
#include "schema/limits.hpp"

#include <utility>

namespace baton::gateway {
namespace {

constexpr std::size_t parts_per_message = 2; // routing id, packet

} // namespace

result<std::string> router_socket::bind(const std::string& endpoint, const router_bounds& bounds) {
  try {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::sndhwm, bounds.send_frames_max);
    socket_.set(zmq::sockopt::rcvhwm, bounds.receive_frames_max);
    socket_.set(zmq::sockopt::maxmsgsize,
                static_cast<std::int64_t>(bounds.body_bytes_max + limits::packet_extra_bytes_max));
    socket_.bind(endpoint);
    return socket_.get(zmq::sockopt::last_endpoint);
  } catch (const zmq::error_t& e) {
    if (e.num() == EADDRINUSE) {
      return fail(errc::address_in_use, "{} is in use by another process", endpoint);
    }
    return fail(errc::io_failed, "cannot bind {}: {}", endpoint, e.what());
  }
}

bool router_socket::send(const std::string& id, const frames& f) {
  zmq::message_t first(id.data(), id.size());
  zmq::message_t packet(packed_bytes(f));
  pack(f, packet.data<std::byte>());
  try {
    if (!socket_.send(first, zmq::send_flags::sndmore | zmq::send_flags::dontwait)) {
      return false; // its queue is full: the peer does not read
    }
    // Once the first part is accepted, the rest cannot be refused.
    socket_.send(packet, zmq::send_flags::none);
  } catch (const zmq::error_t&) {
    return false; // EHOSTUNREACH: the peer is gone
  }
  return true;
}

void router_socket::refuse(const gateway_config& own, const std::string& id, const hello& h,
                           const error& why) {
  hello_ack ack;
  ack.process = own.self;
  ack.incarnation = own.incarnation;
  ack.refused = why;
  envelope e;
  e.source = ack.process;
  e.source_incarnation = ack.incarnation;
  e.target = h.process;
  e.target_incarnation = h.incarnation;
  e.source_actor = actors::well_known::zmq_server;
  e.target_actor = actors::well_known::client;
  e.sequence = 1;
  send(id, encode(e, ack));
}

std::vector<zmq::message_t> router_socket::receive() {
  std::vector<zmq::message_t> parts;
  for (bool has_more = true; has_more;) {
    zmq::message_t part;
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) {
      return {};
    }
    has_more = part.more();
    if (parts.size() <= parts_per_message) { // excess parts are only counted
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

result<frames> router_socket::packet_of(const std::vector<zmq::message_t>& parts) {
  return parts.size() == parts_per_message
             ? unpack(parts[1].data(), parts[1].size())
             : fail(errc::bad_frame, "{} frames in place of one", parts.size() - 1);
}

} // namespace baton::gateway
