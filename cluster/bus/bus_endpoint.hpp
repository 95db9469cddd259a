// Where a bus may listen and connect: ipc, loopback, and beyond the machine only with keys. No
// sockets of ZeroMQ here.
#pragma once

#include "schema/result.hpp"

#include <string>

namespace baton::cluster {

// Accepts "ipc://PATH" and "tcp://HOST:PORT". HOST is never a wildcard, and a numeric loopback
// address or "localhost" unless `has_keys`. Errors: bad_config, naming the endpoint and the reason.
result<void> check_endpoint(const std::string& endpoint, bool has_keys);

// Makes way for an ipc endpoint: removes the socket file that a dead process has left. Errors:
// address_in_use (a live process listens there, or the file is no socket), io_failed. Nothing to do
// for tcp.
result<void> clear_stale_socket(const std::string& endpoint);

// ipc socket files are made with mode 0600: only this user connects. umask is the process's, so
// binding belongs before the threads that create files.
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
