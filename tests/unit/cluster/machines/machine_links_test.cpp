// The speed of links: measured at a probe server of this machine, transmitted, and summed.
#include "cluster/bus/bus_zmq_rpc.hpp"
#include "cluster/bus/reach.hpp"
#include "cluster/join/link_probe.hpp"
#include "cluster/machines/machine_links.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <atomic>

using namespace baton;
using namespace baton::cluster;

namespace {

machine_facts with_link(link_speed link) {
  machine_facts facts{{0, 1}, 8ull << 30};
  facts.link = link;
  return facts;
}

// A server on a port that was free a moment ago.
struct some_server {
  key_pair key = make_key_pair();
  std::string endpoint;
  std::unique_ptr<rpc_server> server;

  explicit some_server(rpc_server::handler answer) {
    for (int attempt = 0; attempt < 10 && !server; ++attempt) {
      const auto port = open_port::listen("127.0.0.1");
      REQUIRE(port);
      endpoint = fmt::format("tcp://127.0.0.1:{}", port->number() + 1);
      if (auto opened = rpc_server::open(endpoint, key, answer))
        server = *std::move(opened);
    }
    REQUIRE(server);
  }
  std::string address() const { return endpoint + "#" + key.public_key; }
};

} // namespace

TEST_CASE("a link is measured by short and by long answers") {
  std::atomic<int> questions = 0; // counted by the server's thread
  const some_server server([&](std::string_view question, const std::string&) {
    const auto r = link_request_from(question);
    ++questions;
    return std::string(r && r->node == "b" && r->token == "t" ? r->bytes : 0, '.');
  });
  const auto link = measure_link(server.address(), make_key_pair(), "b", "t");
  CHECK(link.is_known());
  CHECK(link.round_trip_seconds > 0);
  CHECK(link.bytes_per_second > 1e6);
  CHECK(questions == 13);
}

TEST_CASE("a link is unknown if the server answers wrongly, or if there is none") {
  const some_server refuses([](std::string_view, const std::string&) { return std::string("no"); });
  CHECK_FALSE(measure_link(refuses.address(), make_key_pair(), "b", "t").is_known());
  CHECK_FALSE(measure_link("nowhere", make_key_pair(), "b", "t").is_known());
}

TEST_CASE("the path between machines goes over the root's, if both links are known") {
  const machines known{{root_machine, with_link({})},
                       {"b", with_link({0.002, 100e6})},
                       {"c", with_link({0.004, 50e6})},
                       {"d", with_link({})}};
  CHECK(way_seconds(known, "b", "b", 1'000'000) == 0);
  CHECK(way_seconds(known, root_machine, "b", 0) == doctest::Approx(0.001));
  CHECK(way_seconds(known, "b", root_machine, 1'000'000) == doctest::Approx(0.011));
  CHECK(way_seconds(known, "b", "c", 1'000'000) == doctest::Approx(0.011 + 0.022));
  CHECK(way_seconds(known, root_machine, "d", 1'000'000) == 0);
  CHECK(way_seconds(known, root_machine, "z", 1'000'000) == 0);
}

TEST_CASE("a link is transmitted as it was measured") {
  const auto sent = json_of(with_link({0.1 + 0.2, 123456789.5}));
  const auto received = machine_from(nlohmann::json::parse(sent.dump()));
  REQUIRE(received);
  CHECK(received->link.round_trip_seconds == 0.1 + 0.2);
  CHECK(received->link.bytes_per_second == 123456789.5);
  for (const auto* wrong : {"[1]", "[1, \"2\"]", "[-1, 2]", "[1, 1e300]", "[1e9, 1]", "3"}) {
    auto other = sent;
    other["link"] = nlohmann::json::parse(wrong);
    CHECK_FALSE(machine_from(other));
  }
}
