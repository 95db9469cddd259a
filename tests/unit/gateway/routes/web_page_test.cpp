// The files of the web page for a browser, and the protocols that a WebSocket offers. No sockets.
#include "gateway/routes/web_page.hpp"
#include "gateway/websocket/socket_protocol.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace baton;
using namespace baton::gateway;

namespace {} // namespace

TEST_CASE("each file of the page has its media type, a tag and a strict policy") {
  struct row {
    const char* path;
    const char* media;
    const char* has;
  };
  for (const auto& [path, media, has] :
       {row{"/", "text/html; charset=utf-8", "<title>Baton</title>"},
        row{"/page/page.css", "text/css; charset=utf-8", "prefers-color-scheme"},
        row{"/page/main.js", "text/javascript; charset=utf-8", "import "},
        row{"/page/icon.svg", "image/svg+xml", "<svg"}}) {
    CAPTURE(path);
    const auto r = web_reply(path, {});
    CHECK(r.status == 200);
    CHECK(r.content_type == media);
    CHECK(r.body.find(has) != std::string::npos);
    CHECK(testing::header_of(r, "Cache-Control") == "no-cache");
    CHECK(testing::header_of(r, "X-Content-Type-Options") == "nosniff");
    const auto policy = testing::header_of(r, "Content-Security-Policy");
    CHECK(policy.find("default-src 'none'") != std::string::npos);
    CHECK(policy.find("unsafe") == std::string::npos);
  }
  CHECK(web_reply("/", {}).body.find("<script>") == std::string::npos);
}

TEST_CASE("a browser that has a file already gets 304") {
  const auto tag = testing::header_of(web_reply("/page/main.js", {}), "ETag");
  REQUIRE(tag.size() > 2);
  CHECK(tag != testing::header_of(web_reply("/page/chat.js", {}), "ETag"));
  for (const auto& has : {tag, "\"x\", " + tag, tag.substr(2), std::string("*")}) {
    CAPTURE(has);
    const auto r = web_reply("/page/main.js", {has, {}});
    CHECK(r.status == 304);
    CHECK(r.body.empty());
    CHECK(testing::header_of(r, "ETag") == tag);
    const auto text = render(r, {});
    CHECK(text.starts_with("HTTP/1.1 304 Not Modified\r\n"));
    CHECK(text.find("Content-Length") == std::string::npos);
  }
  CHECK(web_reply("/page/main.js", {"\"other\"", {}}).status == 200);
}

TEST_CASE("a browser that takes gzip gets a fraction of the bytes") {
  const auto whole = web_reply("/page/page.css", {});
  CHECK(testing::header_of(whole, "Content-Encoding").empty());
  CHECK(testing::header_of(whole, "Vary") == "Accept-Encoding");
  for (const auto* takes : {"gzip", "gzip, deflate, br", "br;q=1, gzip;q=0.5", "gzip;q=1.0"}) {
    CAPTURE(takes);
    const auto small = web_reply("/page/page.css", {{}, takes});
    CHECK(testing::header_of(small, "Content-Encoding") == "gzip");
    CHECK(small.body.starts_with("\x1f\x8b"));
    CHECK(small.body.size() * 2 < whole.body.size());
    CHECK(testing::header_of(small, "ETag") == testing::header_of(whole, "ETag"));
  }
  for (const auto* not_so : {"", "identity", "br", "gzip;q=0", "gzip; q=0.0, br"}) {
    CAPTURE(not_so);
    CHECK(web_reply("/page/page.css", {{}, not_so}).body == whole.body);
  }
}

TEST_CASE("any other path is not found") {
  for (const auto* path : {"/page/", "/page/nothing.js", "/page/embed.cmake", "/page/../main.js",
                           "/page/main.js/", "/page/MAIN.JS"}) {
    CAPTURE(path);
    CHECK(web_reply(path, {}).status == 404);
  }
}

TEST_CASE("the protocol is chosen among those offered, and a key is read from beside it") {
  CHECK(offers_protocol("baton"));
  CHECK(offers_protocol("x,\tbaton , y"));
  for (const auto* no : {"", "Baton", "batons", "x, y", ",", "bearer.baton"}) {
    CAPTURE(no);
    CHECK_FALSE(offers_protocol(no));
  }
  CHECK(key_of_offer("baton, bearer.a%2Fb%25") == "a/b%");
  CHECK(key_of_offer("bearer.first, bearer.second") == "first");
  for (const auto* none : {"", "baton", "bearer.", "bearer", "bearer.%2", "bearer.%", ", ,"}) {
    CAPTURE(none);
    CHECK(key_of_offer(none).empty());
  }
}
