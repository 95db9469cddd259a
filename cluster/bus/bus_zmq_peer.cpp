#include "cluster/bus/bus_zmq_peer.hpp"

#include "cluster/bus/bus_endpoint.hpp"
#include "cluster/bus/bus_zmq_zap.hpp"

#include <cerrno>
#include <cstring>

namespace baton::cluster {
namespace {

// Not 0: messages sent just before a peer is given up may still be in flight.
constexpr int linger_ms = 200;

constexpr int watched_events =
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

// The first frame of a monitor event begins with its number, 16 bits, unaligned.
connection_event read_event(const zmq::message_t& m) {
  std::uint16_t number = 0;
  if (m.size() >= sizeof(number))
    std::memcpy(&number, m.data(), sizeof(number));
  switch (number) {
  case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
    return connection_event::connected;
  case ZMQ_EVENT_DISCONNECTED:
    return connection_event::disconnected;
  case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
    return connection_event::refused;
  default:
    return connection_event::handshake_failed;
  }
}

} // namespace

peer_socket::~peer_socket() {
  if (out.handle() != nullptr)
    zmq_socket_monitor(out.handle(), nullptr, 0);
}

void peer_socket::give_up() {
  std::lock_guard lock(mutex);
  // Fails if ZeroMQ has given up first.
  static_cast<void>(zmq_disconnect(out.handle(), to.address.c_str()));
}

std::optional<connection_event> peer_socket::next_event() {
  zmq::message_t event;
  zmq::message_t address;
  if (!monitor.recv(event, zmq::recv_flags::dontwait))
    return std::nullopt;
  static_cast<void>(monitor.recv(address, zmq::recv_flags::dontwait));
  return read_event(event);
}

bool try_send(zmq::socket_t& to, zmq::message_t& m) {
  for (;;) {
    try {
      return to.send(m, zmq::send_flags::dontwait).has_value();
    } catch (const zmq::error_t& e) {
      if (e.num() != EINTR)
        throw;
    }
  }
}

bool has_room_now(zmq::socket_t& s) {
  return (s.get(zmq::sockopt::events) & ZMQ_POLLOUT) != 0;
}

void set_bounds(zmq::socket_t& s, const bus_zmq_options& options) {
  const auto milliseconds = [](auto d) { return static_cast<int>(d.count()); };
  s.set(zmq::sockopt::linger, linger_ms);
  s.set(zmq::sockopt::sndhwm, options.messages_queued_max);
  s.set(zmq::sockopt::rcvhwm, options.messages_queued_max);
  s.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options.packet_bytes_max));
  s.set(zmq::sockopt::heartbeat_ivl, milliseconds(options.heartbeat_interval));
  s.set(zmq::sockopt::heartbeat_timeout, milliseconds(options.heartbeat_timeout));
  s.set(zmq::sockopt::heartbeat_ttl, milliseconds(options.heartbeat_timeout));
  s.set(zmq::sockopt::handshake_ivl, milliseconds(options.handshake_timeout));
}

result<std::shared_ptr<peer_socket>> open_peer(zmq::context_t& context,
                                               const bus_zmq_options& options, const key_pair& own,
                                               process_id process, std::uint64_t number,
                                               const std::string& endpoint) {
  auto p = std::make_shared<peer_socket>();
  p->process = process;
  p->number = number;
  p->to = split_key(endpoint);
  if (auto ok = check_endpoint(p->to.address, !p->to.key.empty()); !ok)
    return ok.error();
  if (!p->to.key.empty() && !options.curve.is_set())
    return fail(errc::bad_config, "'{}' needs a key of ours, and there is none (cluster keygen)",
                endpoint);
  try {
    p->out = zmq::socket_t(context, zmq::socket_type::dealer);
    set_bounds(p->out, options);
    p->out.set(zmq::sockopt::immediate, true); // never queue for a peer that is not there
    p->out.set(zmq::sockopt::connect_timeout, static_cast<int>(options.connect_timeout.count()));
    p->out.set(zmq::sockopt::reconnect_ivl, static_cast<int>(options.reconnect_interval.count()));
    p->out.set(zmq::sockopt::reconnect_ivl_max,
               static_cast<int>(options.reconnect_interval_max.count()));
    if (!p->to.key.empty()) {
      connect_encrypted(p->out, own, p->to.key);
      p->own_key = own.public_key;
    }
    const auto name = fmt::format("inproc://monitor-{}", number);
    if (zmq_socket_monitor(p->out.handle(), name.c_str(), watched_events) != 0)
      return fail(errc::io_failed, "no monitor: {}", zmq_strerror(zmq_errno()));
    p->monitor = zmq::socket_t(context, zmq::socket_type::pair);
    p->monitor.set(zmq::sockopt::linger, 0);
    p->monitor.connect(name);
    p->out.connect(p->to.address);
  } catch (const zmq::error_t& e) {
    return fail(errc::bad_config, "cannot connect to '{}': {}", endpoint, e.what());
  }
  return p;
}

} // namespace baton::cluster
