// The access log line of a request, and the request id.
#include "gateway/base/access_log.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/base/request_id.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

TEST_CASE("a line has the known fields of a request only") {
  access_entry e;
  e.protocol = "http";
  e.method = "POST";
  e.path = "/v1/completions";
  e.status = 200;
  e.bytes = 512;
  e.seconds = 0.25;
  e.client = "127.0.0.1:5001";
  e.request_id = "abc";
  CHECK(access_line(e) == "door=http method=POST path=/v1/completions status=200 bytes=512 "
                          "seconds=0.250000 client=127.0.0.1:5001 request_id=abc");
  e.key = "ops";
  e.model = "smol";
  e.usage = request_usage{12, 34, ticket_id{7}};
  CHECK(access_line(e) == "door=http method=POST path=/v1/completions status=200 bytes=512 "
                          "seconds=0.250000 client=127.0.0.1:5001 key=ops request_id=abc "
                          "model=smol ticket=7 prompt_tokens=12 output_tokens=34");
}

TEST_CASE("a client's text ends no line or field, and does not fill the log") {
  access_entry e;
  e.path = "/a b\n=\"\\\x01\xff";
  CHECK(access_line(e).find(" path=/a\\x20b\\x0a\\x3d\\x22\\x5c\\x01\\xff status=") !=
        std::string::npos);
  const std::string long_path(100'000, 'x');
  e.path = long_path;
  CHECK(access_line(e).size() < 512);
}

TEST_CASE("successful requests of monitoring routes are polls") {
  for (const auto* path : {"/health", "/metrics", "/cluster", "/page/main.js", "/v2/health/ready",
                           "/grpc.health.v1.Health/Check"}) {
    CAPTURE(path);
    access_entry e;
    const bool is_grpc = std::string_view(path).find("grpc.") != std::string_view::npos;
    e.protocol = is_grpc ? "grpc" : "http";
    e.path = path;
    e.status = is_grpc ? 0 : 200;
    CHECK(is_poll(e));
    e.status = is_grpc ? 14 : 503;
    CHECK_FALSE(is_poll(e));
  }
  for (const auto* path : {"/v1/models", "/healthy", "/"}) {
    access_entry e;
    e.protocol = "http";
    e.path = path;
    e.status = 200;
    CHECK_FALSE(is_poll(e));
  }
}

TEST_CASE("a client's id is used if it is printable, else one is made") {
  for (const auto* good : {"a", "0af7651916cd43dd8448eb211c80319c", "req/1:2;x=[y]{z}~!"}) {
    CAPTURE(good);
    CHECK(request_id_of(good) == good);
  }
  const std::string longest(request_id_bytes_max, 'a');
  CHECK(request_id_of(longest) == longest);
  for (const auto& bad : {std::string(), longest + "a", std::string("a b"), std::string("a\nb"),
                          std::string("\"a\""), std::string("a\\b"), std::string("\xc3\xa4"),
                          std::string("\x7f"), std::string("a\0b", 3)}) {
    CAPTURE(bad);
    const auto made = request_id_of(bad);
    CHECK(made.size() == 32);
    CHECK(made != request_id_of(bad));
  }
}

TEST_CASE("every answer has the id of its request once") {
  reply_framing framing;
  framing.request_id = "abc";
  http_reply reply;
  reply.headers = {{"x-REQUEST-id", "a handler's"}, {"X-Other", "1"}};
  for (const auto& text : {render(reply, framing), stream_header(reply, framing),
                           event_stream_header(framing, reply.headers)}) {
    CHECK(text.find("\r\nX-Request-ID: abc\r\n") != std::string::npos);
    CHECK(text.find("handler's") == std::string::npos);
    CHECK(text.find("\r\nX-Other: 1\r\n") != std::string::npos);
  }
}
