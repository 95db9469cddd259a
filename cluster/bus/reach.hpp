// Checks whether one machine can reach another's ports through firewalls. Runs before a machine
// joins, so the error is reported where it can be fixed.
#pragma once

#include "schema/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace baton::cluster {

// Retries while the connection is refused, since the peer may still be starting. Errors: bad_config
// (`host` is no IPv4 address), link_down (why).
result<void> try_to_reach(const std::string& host, std::uint16_t port,
                          std::chrono::milliseconds patience);

// Whether no process listens there. Errors: bad_config (`host` is no IPv4 address), address_in_use,
// io_failed (it is not an address of this machine).
result<void> check_port_is_free(const std::string& host, std::uint16_t port);

// A listening port of this machine, closed by the destructor.
class open_port {
public:
  // Any free port at this address. Errors: bad_config, address_in_use (not this machine's address).
  static result<open_port> listen(const std::string& host);
  open_port(open_port&& other) noexcept;
  open_port& operator=(open_port&&) = delete;
  ~open_port();

  std::uint16_t number() const noexcept { return number_; }

private:
  open_port(int fd, std::uint16_t number) : fd_(fd), number_(number) {}

  int fd_;
  std::uint16_t number_;
};

} // namespace baton::cluster
