// Whether one machine reaches another's ports, which firewalls decide: asked before a machine
// joins, so that it is said where it can be mended.
#pragma once

#include "schema/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace baton::cluster {

// Somebody who is only just coming up there is waited for. Errors: bad_config (`host` is no IPv4
// address), link_down (why).
result<void> try_to_reach(const std::string& host, std::uint16_t port,
                          std::chrono::milliseconds patience);

// Whether nobody listens there. Errors: bad_config (`host` is no IPv4 address), address_in_use,
// io_failed (it is not this machine's).
result<void> check_port_is_free(const std::string& host, std::uint16_t port);

// A port of this machine that can be reached, as long as this lives.
class open_port {
public:
  // Any free one at this address. Errors: bad_config, address_in_use (it is not this machine's).
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
