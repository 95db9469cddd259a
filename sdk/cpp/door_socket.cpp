#include "sdk/cpp/door_socket.hpp"

#include "schema/packet.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace baton::sdk {
namespace {

// What cancel messages may take when a client goes: longer helps nobody.
constexpr int linger_ms = 200;
// ZeroMQ's own attempts while nobody listens; they double.
constexpr int reconnect_min_ms = 20;
constexpr int reconnect_max_ms = 1000;

void clear(int wake) {
  std::uint64_t count = 0;
  (void)!::read(wake, &count, sizeof count);
}

} // namespace

door_socket::door_socket() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

door_socket::~door_socket() {
  if (wake_ >= 0)
    ::close(wake_);
}

void door_socket::connect(const std::string& endpoint, std::size_t bytes_max) {
  if (socket_)
    socket_.set(zmq::sockopt::linger, 0);
  socket_ = {context_, zmq::socket_type::dealer};
  monitor_ = {context_, zmq::socket_type::pair};
  socket_.set(zmq::sockopt::linger, linger_ms);
  socket_.set(zmq::sockopt::reconnect_ivl, reconnect_min_ms);
  socket_.set(zmq::sockopt::reconnect_ivl_max, reconnect_max_ms);
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(bytes_max));
  monitor_.set(zmq::sockopt::linger, 0);
  const auto events = fmt::format("inproc://door-events-{}", ++connects_);
  if (zmq_socket_monitor(socket_.handle(), events.c_str(), ZMQ_EVENT_DISCONNECTED) != 0)
    throw zmq::error_t();
  monitor_.connect(events);
  socket_.connect(endpoint);
}

door_socket::readiness door_socket::wait(std::chrono::milliseconds timeout, bool for_room) {
  std::array<zmq::pollitem_t, 3> items{
      {{socket_.handle(), 0, static_cast<short>(ZMQ_POLLIN | (for_room ? ZMQ_POLLOUT : 0)), 0},
       {monitor_.handle(), 0, ZMQ_POLLIN, 0},
       {nullptr, wake_, ZMQ_POLLIN, 0}}};
  zmq::poll(items.data(), items.size(), timeout);
  if ((items[2].revents & ZMQ_POLLIN) != 0)
    clear(wake_);
  return {(items[0].revents & ZMQ_POLLIN) != 0, (items[1].revents & ZMQ_POLLIN) != 0};
}

void door_socket::pause(std::chrono::milliseconds timeout) {
  zmq::pollitem_t item{nullptr, wake_, ZMQ_POLLIN, 0};
  zmq::poll(&item, 1, timeout);
  clear(wake_);
}

void door_socket::notify() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one); // can only fail when a wake-up is pending anyway
}

bool door_socket::send(const frames& made) {
  zmq::message_t packet(packed_bytes(made));
  pack(made, packet.data<std::byte>());
  return socket_.send(packet, zmq::send_flags::dontwait).has_value();
}

result<std::optional<frames>> door_socket::receive() {
  zmq::message_t packet;
  if (!socket_.recv(packet, zmq::recv_flags::dontwait))
    return std::optional<frames>{};
  if (packet.more())
    return fail(errc::bad_frame, "a message of the door has more than one frame");
  auto f = unpack(packet.data(), packet.size());
  if (!f)
    return f.error();
  return std::optional(*std::move(f));
}

} // namespace baton::sdk
