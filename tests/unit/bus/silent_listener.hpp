// A port of this machine that never answers.
#pragma once

#include "tests/support/deadline_scale.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace baton::testing {

class silent_listener {
public:
  // The system accepts so many connections; later ones are dropped, as if there were no machine.
  explicit silent_listener(int queued) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    REQUIRE(::bind(fd_, any(), size) == 0);
    REQUIRE(::listen(fd_, queued) == 0);
    REQUIRE(::getsockname(fd_, any(), &size) == 0);
  }
  silent_listener(const silent_listener&) = delete;
  silent_listener& operator=(const silent_listener&) = delete;
  ~silent_listener() { ::close(fd_); }

  std::string endpoint() const {
    return fmt::format("tcp://127.0.0.1:{}", ntohs(address_.sin_port));
  }
  // Accepts one connection, sends nothing, and waits for its end.
  void wait_until_one_has_left() {
    be_patient(fd_);
    const int guest = ::accept(fd_, nullptr, nullptr);
    REQUIRE(guest >= 0);
    be_patient(guest);
    char byte = 0;
    ssize_t found = 1;
    while (found > 0)
      found = ::recv(guest, &byte, 1, 0);
    CHECK(found == 0);
    ::close(guest);
  }
  // A connection to it, which the caller closes.
  int enter() {
    const int guest = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(::connect(guest, any(), sizeof(address_)) == 0);
    return guest;
  }

private:
  static void be_patient(int fd) {
    const timeval longest{scaled(std::chrono::seconds(10)).count() / 1000, 0};
    REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof(longest)) == 0);
  }
  sockaddr* any() { return reinterpret_cast<sockaddr*>(&address_); }

  int fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address_{};
};

} // namespace baton::testing
