// Responses as bytes, and the effect of each route. No sockets.
#include "gateway/api/anthropic/anthropic_routes.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/base/http_text.hpp"
#include "gateway/http/http_request.hpp"
#include "gateway/routes/http_api.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;

namespace {

std::shared_ptr<gateway_state> http_facts(gateway_config config) {
  auto facts = std::make_shared<gateway_state>(std::move(config));
  facts->change([](snapshot& s) {
    model_card card;
    card.name = "smol";
    card.phase = phase::ready;
    s.pipelines[0].card = card;
  });
  return facts;
}

http_call http_call_of(std::string_view method, std::string_view target) {
  http_call c;
  c.method = method;
  c.target = target;
  c.host = "localhost:8000";
  return c;
}

gateway_config with_keys() {
  gateway_config config;
  config.keys = {{"u", {digest_of_key("secret")}, key_role::user, {}},
                 {"a", {digest_of_key("other")}, key_role::admin, {}}};
  return config;
}

int status_of(const http_api::access_result& admitted) {
  return admitted.refusal ? admitted.refusal->status : 200;
}

// A call accepted by the row, except for its key.
http_call http_call_of(const route_row& row) {
  auto call = http_call_of(row.methods == method_set::post     ? "POST"
                           : row.methods == method_set::remove ? "DELETE"
                                                               : "GET",
                           row.path);
  if (row.path == "/v1/models/") {
    call.target = "/v1/models/x";
  } else if (row.path == "/page/") {
    call.target = "/page/main.js";
  } else if (row.path == "/v1/workers/") {
    call.target = "/v1/workers/x";
  }
  return call;
}

} // namespace

TEST_CASE("a reply has its length, its date and its connection's state") {
  http_reply r;
  r.body = "{}";
  const auto text = render(r, {.is_http_1_0 = false, .keeps_alive = false, .is_head = false});
  CHECK(text.starts_with("HTTP/1.1 200 OK\r\nDate: "));
  CHECK(text.find("Content-Length: 2\r\n") != std::string::npos);
  CHECK(text.find("Connection: close\r\n") != std::string::npos);
  CHECK(text.ends_with("\r\n\r\n{}"));
  const auto head = render(r, {.is_http_1_0 = true, .keeps_alive = true, .is_head = true});
  CHECK(head.starts_with("HTTP/1.0 200"));
  CHECK(head.find("Connection: keep-alive\r\n") != std::string::npos);
  CHECK(head.ends_with("Content-Length: 2\r\n\r\n"));
}

TEST_CASE("a retryable error has a retry time of at least a second") {
  const auto busy = fail(errc::overloaded, "full");
  CHECK(testing::header_of(error_reply(busy), "Retry-After") == "1");
  CHECK(testing::header_of(error_reply(busy, std::chrono::milliseconds(1500)), "Retry-After") ==
        "2");
  CHECK(testing::header_of(error_reply(fail(errc::invalid_value, "no")), "Retry-After").empty());
  CHECK(error_reply(busy).status == 503);
}

TEST_CASE("chunks are framed by their length in hex") {
  std::string out;
  append_chunk(out, "hello world, sixteen");
  CHECK(out == "14\r\nhello world, sixteen\r\n");
}

TEST_CASE(
    "every route but those of health and the page needs a key, and the operator's an admin's") {
  const http_api api(http_facts(with_keys()));
  std::size_t open = 0, pages = 0;
  for (const auto& row : http_api::routes()) {
    CAPTURE(row.path);
    auto call = http_call_of(row);
    if (row.access == route_access::open) {
      ++open;
      CHECK((row.path == "/health" || row.path == "/ping" || row.path.starts_with("/v2/health/")));
      CHECK(status_of(api.admit(call)) == 200);
      continue;
    }
    if (row.access == route_access::page) { // it asks for the key itself
      ++pages;
      CHECK((row.path == "/" || row.path == "/page/"));
      CHECK(status_of(api.admit(call)) == 200);
      continue;
    }
    for (const auto* method : {"GET", "HEAD", "POST", "OPTIONS", "DELETE"}) {
      if (row.path == "/" && std::string_view(method) != "POST") {
        continue; // the page's
      }
      call.method = method;
      CHECK(status_of(api.admit(call)) == 401);
    }
    call.method = http_call_of(row).method;
    for (const auto* wrong : {"Bearer nope", "Bearer ", "secret", "Basic secret", "Bearer secre"}) {
      call.authorization = wrong;
      const auto refused = api.admit(call).refusal;
      REQUIRE(refused);
      CHECK(refused->status == 401);
      const auto given = nlohmann::json::parse(refused->body)["error"];
      const auto* family = http_api::find(call).row->family; // of a shared path: without the body
      const bool is_anthropics = family == &anthropic_family;
      CHECK(given.is_string() == (family != &openai_family && !is_anthropics));
      CHECK((given.is_string() || is_anthropics || given["code"] == "unauthorized"));
      CHECK((!is_anthropics || given["type"] == "authentication_error"));
      CHECK(testing::header_of(*refused, "WWW-Authenticate") == "Bearer");
    }
    call.authorization = "bearer secret";
    CHECK(status_of(api.admit(call)) == (row.access == route_access::admin ? 403 : 200));
    CHECK(api.admit(call).who.name() == (row.access == route_access::admin ? "" : "u"));
    call.authorization = "Bearer other";
    call.api_key = "secret"; // the other header has priority
    CHECK(status_of(api.admit(call)) == 200);
    CHECK(api.admit(call).who.name() == "a");
    call.authorization = {};
    CHECK(status_of(api.admit(call)) == (row.access == route_access::admin ? 403 : 200));
    call.api_key = "nope";
    CHECK(status_of(api.admit(call)) == 401);
  }
  CHECK(open == 4);
  CHECK(pages == 2);
  CHECK(status_of(api.admit(http_call_of("GET", "/unknown"))) == 401); // and learns no routes
}

TEST_CASE("at the operator's listener the operator's routes need no key, the others do") {
  auto config = with_keys();
  config.admin = "127.0.0.1:0";
  const http_api api(http_facts(config));
  for (const auto& row : http_api::routes()) {
    CAPTURE(row.path);
    auto call = http_call_of(row);
    call.listener = listener_kind::admin;
    CHECK(status_of(api.admit(call)) == (row.access == route_access::user ? 401 : 200));
  }
  auto call = http_call_of("GET", "/cluster");
  call.listener = listener_kind::admin;
  for (const auto* local : {"localhost", "LOCALHOST:8001", "127.0.0.1:8001", "[::1]:8001", ""}) {
    call.host = local;
    CHECK(status_of(api.admit(call)) == 200);
  }
  for (const auto* name : {"evil.example", "127.evil.example", "localhost.evil", "10.0.0.1"}) {
    CAPTURE(name);
    call.host = name; // the host of a page whose name resolves to this machine
    CHECK(status_of(api.admit(call)) == 403);
  }
}

TEST_CASE("without keys all is open, but a route with its own listener is there only") {
  gateway_config config;
  const http_api open(http_facts(config));
  config.admin = "127.0.0.1:0";
  const http_api apart(http_facts(config));
  for (const auto& row : http_api::routes()) {
    CAPTURE(row.path);
    auto call = http_call_of(row);
    CHECK(status_of(open.admit(call)) == 200);
    const bool is_apart = row.access == route_access::admin || row.access == route_access::page;
    CHECK(status_of(apart.admit(call)) == (is_apart ? 403 : 200));
    call.listener = listener_kind::admin;
    CHECK(status_of(apart.admit(call)) == 200);
  }
}

TEST_CASE("where two APIs share a path, the body decides which one answers") {
  const http_api api(http_facts({}));
  struct row {
    const char* target;
    const char* body;
    const char* error; // the member that the API's errors begin with
  };
  for (const auto& r : {row{"/generate", R"({"prompt":1})", R"({"error":{"message":)"},
                        row{"/generate", R"({"inputs":1})", R"({"error":")"},
                        row{"/generate", "{}", R"({"error":")"},
                        row{"/tokenize", R"({"inputs":1})", R"({"error":")"},
                        row{"/tokenize", R"({"prompt":1})", R"({"error":{"message":)"},
                        row{"/tokenize", "{}", R"({"error":{"message":)"}}) {
    CAPTURE(r.target);
    CAPTURE(r.body);
    auto call = http_call_of("POST", r.target);
    call.body = r.body;
    REQUIRE_FALSE(api.admit(call).refusal);
    const auto plan = api.plan(call);
    REQUIRE(std::holds_alternative<http_reply>(plan));
    const auto& body = std::get<http_reply>(plan).body;
    CHECK_MESSAGE(body.starts_with(r.error), body);
  }
  // Before the body is read, one of them words the errors of both.
  CHECK(api.admit(http_call_of("GET", "/tokenize")).refusal->body.starts_with(R"({"error":{)"));
  const auto refused = *api.admit(http_call_of("GET", "/generate")).refusal;
  CHECK(refused.body.starts_with(R"({"error":")"));
  CHECK(refused.headers.back() == std::pair<std::string, std::string>("Allow", "POST, OPTIONS"));
}

TEST_CASE("unknown paths, methods, media and origins are refused in OpenAI's shape") {
  const http_api api(http_facts({}));
  CHECK(api.admit(http_call_of("GET", "/nothing")).refusal->status == 404);
  const auto wrong_method = api.admit(http_call_of("GET", "/v1/chat/completions")).refusal;
  REQUIRE(wrong_method);
  CHECK(wrong_method->status == 405);
  CHECK(wrong_method->headers.back() ==
        std::pair<std::string, std::string>("Allow", "POST, OPTIONS"));

  auto post = http_call_of("POST", "/v1/chat/completions");
  for (const auto* good : {"", "application/json", "application/json; charset=utf-8",
                           "application/x-www-form-urlencoded", "text/plain"}) {
    post.content_type = good;
    CHECK_FALSE(api.admit(post).refusal);
  }
  for (const auto* bad : {"multipart/form-data; boundary=x", "image/png",
                          "application/json; charset=latin1", "text/html"}) {
    post.content_type = bad;
    CHECK(api.admit(post).refusal->status == 415);
  }
  post.content_type = "application/json";
  post.content_encoding = "gzip";
  CHECK(api.admit(post).refusal->status == 415);
  post.content_encoding = "";
  post.origin = "http://localhost:8000";
  CHECK_FALSE(api.admit(post).refusal);
  for (const auto* foreign : {"http://evil.example", "null", "http://localhost:8001"}) {
    post.origin = foreign;
    CHECK(api.admit(post).refusal->status == 403);
  }
}

TEST_CASE("health has the phase and is 200 only when ready") {
  auto facts = std::make_shared<gateway_state>(gateway_config{});
  const http_api api(facts);
  const auto health = [&] {
    return std::get<http_reply>(api.plan(http_call_of("GET", "/health")));
  };
  CHECK(health().status == 503);
  CHECK(nlohmann::json::parse(health().body)["phase"] == "starting");
  facts->change([](snapshot& s) {
    model_card card;
    card.phase = phase::loading;
    card.reason = "stage 1 of 2";
    s.pipelines[0].card = card;
  });
  CHECK(nlohmann::json::parse(health().body)["reason"] == "stage 1 of 2");
  facts->change([](snapshot& s) { s.pipelines[0].card->phase = phase::ready; });
  CHECK(health().status == 200);
  facts->change([](snapshot& s) { s.is_draining = true; });
  CHECK(health().status == 503);
  CHECK(nlohmann::json::parse(health().body)["phase"] == "draining");
}

TEST_CASE("models are found by name and alias") {
  gateway_config config;
  config.model_aliases = {"gpt/4"};
  const http_api api(http_facts(config));
  const auto get = [&](std::string_view path) {
    return std::get<http_reply>(api.plan(http_call_of("GET", path)));
  };
  const auto list = nlohmann::json::parse(get("/v1/models").body);
  CHECK(list["data"].size() == 2);
  CHECK(nlohmann::json::parse(get("/v1/models/smol").body)["id"] == "smol");
  CHECK(nlohmann::json::parse(get("/v1/models/gpt%2F4").body)["id"] == "gpt/4");
  CHECK(get("/v1/models/nope").status == 404);
  CHECK(get("/v1/models/%zz").status == 404);
}

TEST_CASE("a browser passes its key among the offered protocols, on a WebSocket only") {
  const http_api api(http_facts(with_keys()));
  auto socket = http_call_of("GET", "/v1/stream");
  auto other = http_call_of("GET", "/v1/models");
  using row = std::pair<const char*, int>;
  for (const auto& [offered, status] :
       {row("baton, bearer.secret", 200), row("bearer.%73ecret,baton", 200), row("baton", 401),
        row("baton, bearer.nope", 401), row("baton, bearer.%zz", 401), row("bearer.", 401)}) {
    CAPTURE(offered);
    socket.protocols = other.protocols = offered;
    CHECK(status_of(api.admit(socket)) == status);
    CHECK(status_of(api.admit(other)) == 401);
  }
  socket.protocols = "baton, bearer.secret";
  CHECK(api.admit(socket).who.name() == "u");
  socket.authorization = "Bearer nope"; // takes precedence
  CHECK(status_of(api.admit(socket)) == 401);
}

TEST_CASE("OPTIONS lists the methods of a route") {
  const http_api api(http_facts({}));
  const auto r = std::get<http_reply>(api.plan(http_call_of("OPTIONS", "/health")));
  CHECK(r.status == 204);
  CHECK(r.headers.at(0).second == "GET, HEAD, OPTIONS");
}

TEST_CASE("the cluster view shows where each shard runs, and the change of its pipeline") {
  auto facts = http_facts({});
  facts->change([](snapshot& s) {
    s.cluster.emplace();
    s.cluster->nodes = {{process_id{7}, {}, role::shard, "shard-0-g2", phase::ready, {}, 1, 3, 0},
                        {process_id{8}, {}, role::agent, "agent-a", phase::ready, {}, 2, 0, 0}};
    s.cluster->assignments = {{process_id{7}, 0, 2, 1, 3, 10, 5, "a", "cpu:0"}};
    s.cluster->pipelines = {{"smol", 2, 3, "loading", std::nullopt}};
  });
  const http_api api(facts);
  const auto parsed =
      nlohmann::json::parse(std::get<http_reply>(api.plan(http_call_of("GET", "/cluster"))).body);
  CHECK(parsed["nodes"][0]["place"] == nlohmann::json::parse(R"({"on":"a","device":"cpu:0",
      "pipeline":0,"generation":2,"stage":1,"rank":3,"first_layer":10,"layers":5})"));
  CHECK(parsed["nodes"][1]["place"].is_null());
  CHECK(parsed["generations"] ==
        nlohmann::json::parse(R"([{"generation":2,"coming_generation":3,"change":"loading"}])"));
}

TEST_CASE("a comment goes between server-sent events, and in nothing else") {
  for (const auto* type : {"text/event-stream", "Text/Event-Stream; charset=utf-8"}) {
    CHECK(takes_comment(type, "data: a\n\n"));
    CHECK(takes_comment(type, "data: a\r\n\r\n"));
    for (const auto* within : {"", "data: a", "data: a\n", "\n"})
      CHECK_FALSE(takes_comment(type, within));
  }
  for (const auto* type : {"", "text/plain", "text/event-stream2", "application/x-ndjson"})
    CHECK_FALSE(takes_comment(type, "data: a\n\n"));
}

TEST_CASE("a request line names a path, the server, or an http URL of it") {
  struct row {
    std::string_view method, text, target, authority;
  };
  for (const row& r :
       {row{"GET", "/a?b=http://c", "/a?b=http://c", ""},
        row{"GET", "http://h/a?b#c", "/a?b#c", "h"}, row{"GET", "HTTPS://h:1/", "/", "h:1"},
        row{"GET", "http://[::1]:8000/a", "/a", "[::1]:8000"}, row{"GET", "http://h", "/", "h"},
        row{"GET", "http://h?q", "/", "h"}, row{"OPTIONS", "http://h", "*", "h"},
        row{"OPTIONS", "*", "*", ""}}) {
    CAPTURE(r.text);
    const auto read = read_target(r.method, r.text);
    REQUIRE(read);
    CHECK(read->target == r.target);
    CHECK(read->authority == r.authority);
  }
  for (const auto* text : {"", "*", "a", "h:80", "http:/h", "http://", "http:///a", "http://u@h/a",
                           "ftp://h/a", "?a"}) {
    CAPTURE(text);
    CHECK_FALSE(read_target("GET", text));
  }
}

TEST_CASE("empty lines before a request are skipped, up to a limit") {
  const auto skip = [](std::string text, std::size_t most) {
    boost::beast::flat_buffer buffer;
    buffer.commit(boost::asio::buffer_copy(buffer.prepare(text.size()), boost::asio::buffer(text)));
    const auto lines = skip_empty_lines(buffer, most);
    const auto rest = buffer.cdata();
    return std::pair(lines, std::string(static_cast<const char*>(rest.data()), rest.size()));
  };
  CHECK(skip("\r\n\r\nGET", 8) == std::pair(std::size_t{2}, std::string("GET")));
  CHECK(skip("\r\n\r\nGET", 1) == std::pair(std::size_t{1}, std::string("\r\nGET")));
  CHECK(skip("\r", 8) == std::pair(std::size_t{0}, std::string("\r")));
  CHECK(skip("\n", 8) == std::pair(std::size_t{0}, std::string("\n")));
  CHECK(skip("", 8) == std::pair(std::size_t{0}, std::string()));
}
