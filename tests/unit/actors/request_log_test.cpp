// Named requests: found while their tickets are open and for a while after, within a limit.
#include "actors/request_log.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::actors;
using namespace std::chrono_literals;

TEST_CASE("a name is known from its ticket to some time after the ticket's end") {
  request_log log(10s, 100);
  request_log::time_point now{1h};
  log.remember("a", {ticket_id{1}, 5, 6, 2}, now);
  bool is_open = true;
  const auto asks = [&](ticket_id) { return is_open; };
  now += 1h;
  log.tick(now, asks);
  REQUIRE(log.find("a"));
  CHECK(log.find("a")->ticket == ticket_id{1});
  CHECK(log.find("a")->resume_key == 5);
  CHECK(log.find("a")->digest == 6);
  CHECK(log.find("a")->choices == 2);
  CHECK_FALSE(log.find("b"));
  is_open = false;
  log.tick(now + 9'999ms, asks);
  CHECK(log.find("a"));
  log.tick(now + 10s, asks);
  CHECK_FALSE(log.find("a"));
  CHECK(log.size() == 0);
}

TEST_CASE("a refused ticket is forgotten, and its name can be used again") {
  request_log log(10s, 100);
  const request_log::time_point now{};
  log.remember("a", {ticket_id{1}, 0, 0, 1}, now);
  log.forget(ticket_id{2});
  CHECK(log.find("a"));
  log.forget(ticket_id{1});
  CHECK_FALSE(log.find("a"));
  log.remember("a", {ticket_id{3}, 0, 0, 1}, now);
  log.remember("a", {ticket_id{4}, 0, 0, 1}, now);
  CHECK(log.find("a")->ticket == ticket_id{4});
  log.forget(ticket_id{3}); // of its former ticket
  CHECK(log.find("a"));
}

TEST_CASE("no more than the limit of names is kept, the latest") {
  request_log log(10s, 3);
  for (std::uint64_t i = 1; i <= 5; ++i)
    log.remember("n" + std::to_string(i), {ticket_id{i}, 0, 0, 1}, {});
  CHECK(log.size() == 3);
  CHECK_FALSE(log.find("n2"));
  CHECK(log.find("n3"));
}
