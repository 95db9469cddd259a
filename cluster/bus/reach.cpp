#include "cluster/bus/reach.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds try_interval{100};

result<sockaddr_in> address_of(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    return fail(errc::bad_config, "'{}' is no IPv4 address", host);
  return address;
}

const sockaddr* as_any(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Returns 0 or an errno.
int connect_once(const sockaddr_in& address, clock::time_point until) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return errno;
  int why = ::connect(fd, as_any(address), sizeof(address)) == 0 ? 0 : errno;
  if (why == EINPROGRESS) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    pollfd done{fd, POLLOUT, 0};
    socklen_t size = sizeof(why);
    if (::poll(&done, 1, left > 0 ? static_cast<int>(left) : 0) != 1)
      why = ETIMEDOUT;
    else if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
      why = errno;
  }
  ::close(fd);
  return why;
}

} // namespace

result<void> try_to_reach(const std::string& host, std::uint16_t port,
                          std::chrono::milliseconds patience) {
  const auto address = address_of(host, port);
  if (!address)
    return address.error();
  const auto until = clock::now() + patience;
  for (;;) {
    const int why = connect_once(*address, until);
    if (why == 0)
      return {};
    if (why != ECONNREFUSED || clock::now() + try_interval >= until)
      return fail(errc::link_down, "{}:{}: {}", host, port, std::strerror(why));
    ::poll(nullptr, 0, static_cast<int>(try_interval.count()));
  }
}

result<void> check_port_is_free(const std::string& host, std::uint16_t port) {
  const auto address = address_of(host, port);
  if (!address)
    return address.error();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1; // ignores connections that have just ended
  const bool is_free = fd >= 0 &&
                       ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                       ::bind(fd, as_any(*address), sizeof(*address)) == 0 && ::listen(fd, 1) == 0;
  const int why = errno;
  if (fd >= 0)
    ::close(fd);
  if (is_free)
    return {};
  if (why == EADDRINUSE)
    return fail(errc::address_in_use, "{}:{} is in use by another process", host, port);
  return fail(errc::io_failed, "cannot listen on {}:{}: {}", host, port, std::strerror(why));
}

result<open_port> open_port::listen(const std::string& host) {
  auto address = address_of(host, 0);
  if (!address)
    return address.error();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = sizeof(*address);
  open_port port(fd, 0); // its destructor closes fd
  if (fd < 0 || ::bind(fd, as_any(*address), size) != 0 || ::listen(fd, 1) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&*address), &size) != 0)
    return fail(errc::address_in_use, "cannot listen at {}: {}", host, std::strerror(errno));
  port.number_ = ntohs(address->sin_port);
  return port;
}

open_port::open_port(open_port&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), number_(other.number_) {}

open_port::~open_port() {
  if (fd_ >= 0)
    ::close(fd_);
}

} // namespace baton::cluster
