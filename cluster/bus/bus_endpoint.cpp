#include "cluster/bus/bus_endpoint.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

namespace baton::cluster {
namespace {

constexpr std::string_view ipc_scheme = "ipc://";
constexpr std::string_view tcp_scheme = "tcp://";
// sockaddr_un holds the path and its terminator.
constexpr std::size_t ipc_path_max = sizeof(sockaddr_un::sun_path) - 1;

std::optional<std::string> ipc_path(std::string_view endpoint) {
  if (!endpoint.starts_with(ipc_scheme))
    return {};
  return std::string(endpoint.substr(ipc_scheme.size()));
}

// The whole host must be an address: ZeroMQ parses "127.0.0.1;10.0.0.7" as two.
bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1)
    return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']' &&
      inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1)
    return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

// All addresses of this machine. Refused, so that operators choose who can reach a process.
bool is_wildcard(const std::string& host) {
  return host == "*" || host == "0.0.0.0" || host == "[::]";
}

// Whether a process accepts connections on this socket file.
bool is_listened_on(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return true;
  const int rc = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const bool is_refused = rc != 0 && errno == ECONNREFUSED;
  ::close(fd);
  return !is_refused;
}

} // namespace

result<void> check_endpoint(const std::string& endpoint, bool has_keys) {
  if (auto path = ipc_path(endpoint)) {
    if (path->empty() || path->size() > ipc_path_max)
      return fail(errc::bad_config, "'{}': an ipc path has 1 to {} bytes, this has {}", endpoint,
                  ipc_path_max, path->size());
    if (path->find('\0') != std::string::npos || path->front() == '@' || path->front() == '*')
      return fail(errc::bad_config, "'{}': an ipc endpoint is a file's path", endpoint);
    return {};
  }
  if (!endpoint.starts_with(tcp_scheme))
    return fail(errc::bad_config, "'{}' is neither ipc://PATH nor tcp://HOST:PORT", endpoint);
  const auto colon = endpoint.rfind(':');
  if (colon < tcp_scheme.size() + 1 || colon + 1 == endpoint.size())
    return fail(errc::bad_config, "'{}' is not tcp://HOST:PORT", endpoint);
  const auto host = endpoint.substr(tcp_scheme.size(), colon - tcp_scheme.size());
  if (is_wildcard(host))
    return fail(errc::bad_config, "'{}' is every address of this machine: name one", endpoint);
  if (!has_keys && !is_loopback(host))
    return fail(errc::bad_config,
                "'{}' leaves this machine: that needs CURVE keys (cluster keygen)", endpoint);
  return {};
}

result<void> clear_stale_socket(const std::string& endpoint) {
  auto path = ipc_path(endpoint);
  if (!path)
    return {};
  struct stat about {};
  if (::lstat(path->c_str(), &about) != 0) {
    if (errno == ENOENT)
      return {};
    return fail(errc::io_failed, "'{}': {}", *path, std::strerror(errno));
  }
  if (!S_ISSOCK(about.st_mode))
    return fail(errc::address_in_use, "'{}' exists and is not a socket", *path);
  if (is_listened_on(*path))
    return fail(errc::address_in_use, "a process listens on '{}'", *path);
  if (::unlink(path->c_str()) != 0 && errno != ENOENT)
    return fail(errc::io_failed, "cannot remove '{}': {}", *path, std::strerror(errno));
  return {};
}

private_umask::private_umask() noexcept : saved_(::umask(0177)) {}
private_umask::~private_umask() {
  ::umask(static_cast<mode_t>(saved_));
}

} // namespace baton::cluster
