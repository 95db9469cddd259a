// Where a bus may listen and connect: ipc, loopback, and beyond the machine only with keys. No
// ZeroMQ sockets here.
#pragma once

#include "schema/result.hpp"

#include <string>

namespace baton::cluster {

// Accepts "ipc://PATH" and "tcp://HOST:PORT". HOST is never a wildcard; without `has_keys` it is a
// numeric loopback address or "localhost". Errors: bad_config (names endpoint and reason).
result<void> check_endpoint(const std::string& endpoint, bool has_keys);

// Removes the socket file of an ipc endpoint that a dead process left behind. Errors:
// address_in_use (a live process listens there, or the file is no socket), io_failed. Does nothing
// for tcp.
result<void> clear_stale_socket(const std::string& endpoint);

// Makes ipc socket files mode 0600, so only this user can connect. umask is process-wide: bind
// before starting threads that create files.
class private_umask {
public:
  private_umask() noexcept;
  ~private_umask();
  private_umask(const private_umask&) = delete;
  private_umask& operator=(const private_umask&) = delete;

private:
  unsigned saved_;
};

} // namespace baton::cluster
