// The messages of /v1/stream, in both directions.
#include "gateway/websocket/websocket_messages.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

template <class T>
T message_of(const std::string& text) {
  auto parsed = parse_socket_message(text, testing::default_config);
  REQUIRE_MESSAGE(std::holds_alternative<socket_message>(parsed), text);
  return std::get<T>(std::get<socket_message>(parsed));
}

socket_mistake mistake_of(const std::string& text) {
  auto parsed = parse_socket_message(text, testing::default_config);
  REQUIRE_MESSAGE(std::holds_alternative<socket_mistake>(parsed), text);
  return std::get<socket_mistake>(parsed);
}

} // namespace

TEST_CASE("start is a chat or a completion body with an id and a window") {
  const auto chat = message_of<socket_start>(
      R"({"type":"start","id":"a","messages":[{"role":"user","content":"x"}],"window":8})");
  CHECK(chat.id == "a");
  CHECK(chat.window == 8u);
  CHECK(chat.call.shape.api == openai_api::chat);
  const auto text =
      message_of<socket_start>(R"({"type":"start","id":"b","prompt":"x","max_tokens":3})");
  CHECK(text.call.shape.api == openai_api::completions);
  CHECK(text.call.request.terms.stop.max_tokens == 3);
  CHECK_FALSE(text.window);
}

TEST_CASE("fields that a socket's messages do not support are refused by name") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"type":"start","id":"a","prompt":"x","echo":true})", "echo"},
      {R"({"type":"start","id":"a","prompt":"x","best_of":2})", "best_of"},
      {R"({"type":"start","id":"a","messages":[{"role":"user","content":"x"}],)"
       R"("tools":[{"type":"function","function":{"name":"f"}}]})",
       "tools"},
  };
  for (const auto& [text, param] : rows)
    CHECK(mistake_of(text).reason.param == param);
}

TEST_CASE("cancel and ack name their request") {
  CHECK(message_of<socket_cancel>(R"({"type":"cancel","id":"a"})").id == "a");
  const auto ack = message_of<socket_ack>(R"({"type":"ack","id":"a","index":7,"window":3})");
  CHECK(ack.index == 7);
  CHECK(ack.window == 3u);
}

TEST_CASE("an error names its cause and its request") {
  struct row {
    const char* text;
    const char* id;
    const char* param;
    bool is_json;
  };
  const row rows[] = {
      {"hello", "", "", false},
      {"[]", "", "", false},
      {"{}", "", "id", true},
      {R"({"type":"start"})", "", "id", true},
      {R"({"id":"a"})", "a", "type", true},
      {R"({"id":"a","type":5})", "a", "type", true},
      {R"({"id":"a","type":"dance"})", "a", "type", true},
      {R"({"id":"","type":"cancel"})", "", "id", true},
      {R"({"id":5,"type":"cancel"})", "", "id", true},
      {R"({"id":"a","type":"cancel","x":1})", "a", "x", true},
      {R"({"id":"a","type":"ack"})", "a", "index", true},
      {R"({"id":"a","type":"ack","index":-1})", "a", "index", true},
      {R"({"id":"a","type":"start","prompt":"x","window":0})", "a", "window", true},
      {R"({"id":"a","type":"start","prompt":"x","temperature":9})", "a", "temperature", true},
      {R"({"id":"a","type":"start"})", "a", "prompt", true},
  };
  for (const auto& r : rows) {
    CAPTURE(r.text);
    const auto m = mistake_of(r.text);
    CHECK(m.id == r.id);
    CHECK(m.reason.param == r.param);
    CHECK(m.is_json == r.is_json);
  }
  CHECK(mistake_of(R"({"type":"cancel","id":")" + std::string(200, 'x') + "\"}").reason.param ==
        "id");
}

TEST_CASE("server messages are JSON that names the request") {
  const std::string id = "q\"1";
  chunk c;
  c.index = 3;
  c.count = 2;
  c.text = "a\n";
  c.prompt_tokens = 4;
  c.cached_tokens = 2;
  c.output_tokens = 3;
  c.finish = finish::stop;
  reply_shape one;
  CHECK(json::parse(granted_text(id, granted{1, ticket_id{5}, {}, 0xAB})) ==
        json{{"type", "granted"}, {"id", id}, {"ticket", 5}, {"resume", "5-00000000000000ab"}});
  CHECK(json::parse(tokens_text(id, c, one)) ==
        json{{"type", "tokens"}, {"id", id}, {"index", 3}, {"count", 2}, {"text", "a\n"}});
  const auto done = json::parse(done_text(id, c, one, true));
  CHECK(done["finish_reason"] == "stop");
  CHECK(done["usage"]["total_tokens"] == 7);
  CHECK(done["usage"]["prompt_tokens_details"]["cached_tokens"] == 2);
  reply_shape two;
  two.choices = 2;
  CHECK(json::parse(tokens_text(id, c, two))["choice"] == 0);
  CHECK_FALSE(json::parse(tokens_text(id, c, one)).contains("reasoning"));
  const auto e = json::parse(socket_error_text("", fail(errc::overloaded, "full")));
  CHECK(e["type"] == "error");
  CHECK(e["id"].is_null());
  CHECK(e["error"]["code"] == "overloaded");
}

TEST_CASE("the first tokens of a model that thinks have the marks of its reasoning") {
  chunk c;
  c.index = c.count = 2;
  c.reasoning = reasoning_format::think;
  c.begins_in_reasoning = true;
  CHECK(json::parse(tokens_text("a", c, {}))["reasoning"] ==
        json{{"open", "<think>"}, {"close", "</think>"}, {"begun", true}});
  c.reasoning = reasoning_format::harmony;
  c.begins_in_reasoning = false;
  CHECK(json::parse(tokens_text("a", c, {}))["reasoning"] ==
        json{{"open", "<|channel|>analysis<|message|>"},
             {"close", "<|end|>"},
             {"begun", false},
             {"next", "<|start|>assistant"},
             {"answer", "<|channel|>final<|message|>"}});
  c.index = 4; // not the first ones
  CHECK_FALSE(json::parse(tokens_text("a", c, {})).contains("reasoning"));
}
