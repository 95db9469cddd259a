#include "sdk/cpp/dealer_socket.hpp"

#include "schema/packet.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace baton::sdk {
namespace {

// How long pending cancel messages may take when a client closes.
constexpr int linger_ms = 200;
// ZeroMQ's own reconnect interval while no server listens; it doubles.
constexpr int reconnect_min_ms = 20;
constexpr int reconnect_max_ms = 1000;

void clear(int wake) {
  std::uint64_t count = 0;
  (void)!::read(wake, &count, sizeof count);
}

} // namespace

dealer_socket::dealer_socket() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

dealer_socket::~dealer_socket() {
  if (wake_ >= 0)
    ::close(wake_);
}

void dealer_socket::connect(const std::string& endpoint, std::size_t bytes_max) {
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

dealer_socket::readiness dealer_socket::wait(std::chrono::milliseconds timeout, bool for_room) {
  std::array<zmq::pollitem_t, 3> items{
      {{socket_.handle(), 0, static_cast<short>(ZMQ_POLLIN | (for_room ? ZMQ_POLLOUT : 0)), 0},
       {monitor_.handle(), 0, ZMQ_POLLIN, 0},
       {nullptr, wake_, ZMQ_POLLIN, 0}}};
  zmq::poll(items.data(), items.size(), timeout);
  if ((items[2].revents & ZMQ_POLLIN) != 0)
    clear(wake_);
  return {(items[0].revents & ZMQ_POLLIN) != 0, (items[1].revents & ZMQ_POLLIN) != 0};
}

void dealer_socket::pause(std::chrono::milliseconds timeout) {
  zmq::pollitem_t item{nullptr, wake_, ZMQ_POLLIN, 0};
  zmq::poll(&item, 1, timeout);
  clear(wake_);
}

void dealer_socket::notify() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one); // fails only if a wake-up is already pending
}

bool dealer_socket::send(const frames& made) {
  zmq::message_t packet(packed_bytes(made));
  pack(made, packet.data<std::byte>());
  return socket_.send(packet, zmq::send_flags::dontwait).has_value();
}

result<std::optional<frames>> dealer_socket::receive() {
  zmq::message_t packet;
  if (!socket_.recv(packet, zmq::recv_flags::dontwait))
    return std::optional<frames>{};
  if (packet.more())
    return fail(errc::bad_frame, "a message of the gateway has more than one frame");
  auto f = unpack(packet.data(), packet.size());
  if (!f)
    return f.error();
  return std::optional(*std::move(f));
}

} // namespace baton::sdk
