// A worker's piece as an HTTP reply: the parts that it sets, and those that would break the reply.
#include "gateway/workers/worker_reply.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("a piece becomes a reply with the headers of its handler") {
  inferred p;
  p.body = "pot";
  auto reply = raw_reply(p);
  CHECK(reply.status == 200);
  CHECK(reply.content_type == "application/octet-stream");
  CHECK(reply.body == "pot");
  p.http_status = 418;
  p.content_type = "text/plain";
  p.headers = {{"X-Kind", "tea"}};
  REQUIRE(check_raw(p));
  reply = raw_reply(p);
  CHECK(reply.status == 418);
  CHECK(reply.content_type == "text/plain");
  CHECK(reply.headers == header_list{{"X-Kind", "tea"}});
}

TEST_CASE("bytes that would end or reframe the reply's header are the handler's failure") {
  const auto refuses = [](auto spoil) {
    inferred p;
    spoil(p);
    const auto ok = check_raw(p);
    return !ok && ok.error().code == errc::handler_failed;
  };
  CHECK(refuses([](inferred& p) { p.content_type = "a\r\nb: c"; }));
  CHECK(refuses([](inferred& p) { p.headers = {{"a", std::string("b\0", 2)}}; }));
  CHECK(refuses([](inferred& p) { p.headers = {{"a\n", "b"}}; }));
  CHECK(refuses([](inferred& p) { p.headers = {{"", "b"}}; }));
  CHECK(refuses([](inferred& p) { p.headers = {{"a b", "b"}}; }));
  CHECK(refuses([](inferred& p) { p.headers = {{"content-LENGTH", "0"}}; }));
  CHECK(refuses([](inferred& p) { p.http_status = 99; }));
  CHECK(refuses([](inferred& p) { p.http_status = 101; }));
  CHECK(refuses([](inferred& p) { p.outputs.resize(1); }));
  CHECK_FALSE(refuses([](inferred& p) { p.headers = {{"a", "b\tc \xc3\xa4"}}; }));
}
