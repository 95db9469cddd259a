// Reachability over this machine's own addresses.
#include "cluster/bus/reach.hpp"

#include <doctest/doctest.h>

#include <optional>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;

TEST_CASE("a port is reachable while a process listens on it") {
  auto port = open_port::listen("127.0.0.2");
  REQUIRE(port);
  std::optional<open_port> there(std::move(*port));
  CHECK(there->number() != 0);
  CHECK(try_to_reach("127.0.0.2", there->number(), 1s));
  const auto number = there->number();
  const auto elsewhere = try_to_reach("127.0.0.3", number, 0ms);
  REQUIRE_FALSE(elsewhere);
  CHECK(elsewhere.error().code == errc::link_down);
  CHECK(elsewhere.error().message.find("Connection refused") != std::string::npos);
  there.reset();
  CHECK_FALSE(try_to_reach("127.0.0.2", number, 0ms));
}

TEST_CASE("an address of another machine, or an invalid one, is reported") {
  const auto far = open_port::listen("192.0.2.1"); // TEST-NET-1 of RFC 5737
  REQUIRE_FALSE(far);
  CHECK(far.error().code == errc::address_in_use);
  CHECK(far.error().message.find("192.0.2.1") != std::string::npos);
  CHECK(open_port::listen("somewhere").error().code == errc::bad_config);
  CHECK(try_to_reach("somewhere", 1, 0ms).error().code == errc::bad_config);
}
