// Messages and errors of Anthropic's API: whole, as events, continued at any id.
#include "gateway/api/anthropic/anthropic_error.hpp"
#include "gateway/api/anthropic/anthropic_response.hpp"
#include "gateway/request/json_reader.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace baton;
using namespace baton::gateway;

namespace {

reply_shape message_shape(bool has_calls = false, bool is_constrained = false) {
  reply_shape s;
  s.model = "m";
  if (has_calls) {
    s.calls = std::make_shared<const call_reading>(
        call_reading{call_format::hermes, {"f", "g"}, is_constrained});
  }
  return s;
}

chunk message_chunk(std::uint32_t index, std::string text, finish how = finish::none,
                    std::string stop_text = {}) {
  chunk c;
  c.index = c.output_tokens = index;
  c.text = std::move(text);
  c.finish = how;
  c.stop_text = std::move(stop_text);
  c.prompt_tokens = 5;
  c.cached_tokens = 4;
  return c;
}

struct message_event {
  std::string type;
  json data;
  std::string id;
};

std::vector<message_event> message_events(const std::string& text) {
  std::vector<message_event> all;
  std::istringstream lines(text);
  std::string line, id;
  while (std::getline(lines, line)) {
    if (line.starts_with("id: ")) {
      id = line.substr(4);
    } else if (line.starts_with("event: ")) {
      all.push_back({line.substr(7), {}, std::exchange(id, {})});
    } else if (line.starts_with("data: ")) {
      all.back().data = json::parse(line.substr(6));
      CHECK(all.back().data["type"] == all.back().type);
    } else {
      CHECK(line.empty());
    }
  }
  return all;
}

std::vector<std::string> event_types(const std::vector<message_event>& events) {
  std::vector<std::string> types;
  for (const auto& e : events) {
    types.push_back(e.type);
  }
  return types;
}

json whole_message(const reply_shape& shape, const std::vector<chunk>& chunks) {
  anthropic_unary writer(shape);
  for (const auto& c : chunks) {
    CHECK_FALSE(writer.is_complete());
    writer.add(c);
  }
  REQUIRE(writer.is_complete());
  return json::parse(writer.reply(testing::answerer, {}).body);
}

std::string streamed_message(const reply_shape& shape, const std::vector<chunk>& chunks,
                             const std::optional<stream_position>& from = std::nullopt) {
  anthropic_stream writer(shape, testing::answerer, from);
  std::string out;
  for (const auto& c : chunks) {
    writer.add(c, out);
  }
  CHECK(writer.has_ended());
  return out;
}

constexpr const char* two_calls =
    "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, "
    "\"a\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
    "\"arguments\": {}}\n</tool_call>";

std::vector<chunk> in_pieces(std::string_view text, std::size_t size) {
  std::vector<chunk> all;
  for (std::size_t at = 0; at < text.size(); at += size) {
    all.push_back(message_chunk(static_cast<std::uint32_t>(all.size() + 1),
                                std::string(text.substr(at, size))));
  }
  all.push_back(message_chunk(static_cast<std::uint32_t>(all.size()), "", finish::stop));
  return all;
}

} // namespace

TEST_CASE("a whole message") {
  const auto body = whole_message(message_shape(),
                                  {message_chunk(1, "a"), message_chunk(2, "b\n", finish::stop)});
  CHECK(body == json::parse(R"({"id":"msg_9","type":"message","role":"assistant","model":"m",
    "content":[{"type":"text","text":"ab\n"}],"stop_reason":"end_turn","stop_sequence":null,
    "usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,
    "output_tokens":2}})"));
  const auto cut = whole_message(message_shape(), {message_chunk(1, "a", finish::length)});
  CHECK(cut["stop_reason"] == "max_tokens");
  const auto stopped = whole_message(message_shape(), {message_chunk(1, "a", finish::stop, "END")});
  CHECK(stopped["stop_reason"] == "stop_sequence");
  CHECK(stopped["stop_sequence"] == "END");
  CHECK(whole_message(message_shape(), {message_chunk(1, "", finish::stop)})["content"].empty());
}

TEST_CASE("calls of a whole message are blocks") {
  const auto body = whole_message(message_shape(true), in_pieces(two_calls, 100));
  CHECK(body["stop_reason"] == "tool_use");
  REQUIRE(body["content"].size() == 3);
  CHECK(body["content"][0] == json{{"type", "text"}, {"text", "I look."}});
  const auto& call = body["content"][1];
  CHECK(call["type"] == "tool_use");
  CHECK(call["name"] == "f");
  CHECK(call["input"] == json{{"a", 2}, {"b", 1}});
  CHECK(call["id"].get<std::string>().starts_with("toolu_"));
  CHECK(body["content"][2]["input"] == json::object());
  CHECK(body["content"][2]["id"] != call["id"]);
}

TEST_CASE("a call that is cut off has an empty input") {
  const auto body = whole_message(message_shape(true, true),
                                  {message_chunk(1,
                                                 "<tool_call>\n{\"name\": \"f\", \"arguments\": "
                                                 "{\"a\": \"x",
                                                 finish::length)});
  CHECK(body["stop_reason"] == "max_tokens");
  REQUIRE(body["content"].size() == 1);
  CHECK(body["content"][0]["input"] == json::object());
}

TEST_CASE("the events of a text") {
  const auto events = message_events(streamed_message(
      message_shape(), {message_chunk(1, "a"), message_chunk(2, "\"\n", finish::stop, "END")}));
  CHECK(event_types(events) ==
        std::vector<std::string>{"message_start", "ping", "content_block_start",
                                 "content_block_delta", "content_block_delta", "content_block_stop",
                                 "message_delta", "message_stop"});
  CHECK(events[0].data["message"] ==
        json::parse(R"({"id":"msg_9","type":"message","role":"assistant","model":"m","content":[],
      "stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,
      "cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":0}})"));
  CHECK(events[2].data["content_block"] == json{{"type", "text"}, {"text", ""}});
  CHECK(events[4].data == json::parse(R"({"type":"content_block_delta","index":0,
    "delta":{"type":"text_delta","text":"\"\n"}})"));
  CHECK(events[5].data["index"] == 0);
  CHECK(events[6].data["delta"] ==
        json{{"stop_reason", "stop_sequence"}, {"stop_sequence", "END"}});
  CHECK(events[6].data["usage"]["output_tokens"] == 2);
  CHECK(events[6].data["usage"]["cache_read_input_tokens"] == 4);
}

TEST_CASE("the events of calls say the same as the whole message, however the text is split") {
  const auto whole = whole_message(message_shape(true), in_pieces(two_calls, 100));
  for (const std::size_t size : {1, 3, 7, 1000}) {
    CAPTURE(size);
    auto content = json::array();
    std::string input;
    for (const auto& e :
         message_events(streamed_message(message_shape(true), in_pieces(two_calls, size)))) {
      if (e.type == "content_block_start") {
        CHECK(e.data["index"] == content.size());
        content.push_back(e.data["content_block"]);
        input.clear();
      } else if (e.type == "content_block_delta") {
        CHECK(e.data["index"] == content.size() - 1);
        const auto& delta = e.data["delta"];
        if (delta["type"] == "text_delta") {
          auto& text = content.back()["text"].get_ref<std::string&>();
          text += delta["text"].get<std::string>();
        } else {
          CHECK(delta["type"] == "input_json_delta");
          input += delta["partial_json"].get<std::string>();
        }
      } else if (e.type == "content_block_stop" && content.back()["type"] == "tool_use") {
        content.back()["input"] = json::parse(input);
      } else if (e.type == "message_delta") {
        CHECK(e.data["delta"]["stop_reason"] == "tool_use");
      }
    }
    CHECK(content == whole["content"]);
  }
}

TEST_CASE("a stream continues at each of its ids") {
  for (const bool has_calls : {false, true}) {
    CAPTURE(has_calls);
    const auto shape = message_shape(has_calls);
    const auto chunks = in_pieces(two_calls, 7);
    const auto all = streamed_message(shape, chunks);
    std::size_t ids = 0;
    for (auto at = all.find("id: "); at != all.npos; at = all.find("id: ", at + 1), ++ids) {
      const auto position = parse_position(all.substr(at + 4, all.find('\n', at) - at - 4), 1);
      REQUIRE(position);
      const auto rest = all.substr(all.find("\n\n", at) + 2);
      const auto again = streamed_message(shape, chunks, *position);
      // Behind the end, its last event is repeated, so that the client sees it.
      CHECK(event_types(message_events(again)) == (rest.empty()
                                                       ? std::vector<std::string>{"message_stop"}
                                                       : event_types(message_events(rest))));
      CHECK((rest.empty() || again == rest));
    }
    CHECK(ids > 3);
  }
}

TEST_CASE("a failure is an event, once") {
  anthropic_stream writer(message_shape(), testing::answerer);
  std::string out;
  writer.add(message_chunk(1, "a"), out);
  out.clear();
  writer.fail(fail(errc::internal, "broken"), out);
  CHECK(writer.has_ended());
  writer.fail(fail(errc::internal, "again"), out);
  writer.add(message_chunk(2, "b", finish::stop), out);
  CHECK(out == "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\","
               "\"message\":\"broken\"}}\n\n");
}

TEST_CASE("errors have Anthropic's types and statuses") {
  struct row {
    errc code;
    int status;
    std::string type;
  };
  const row rows[] = {{errc::invalid_value, 400, "invalid_request_error"},
                      {errc::context_length_exceeded, 400, "invalid_request_error"},
                      {errc::unprocessable, 400, "invalid_request_error"},
                      {errc::unauthorized, 401, "authentication_error"},
                      {errc::forbidden, 403, "permission_error"},
                      {errc::model_not_found, 404, "not_found_error"},
                      {errc::method_not_allowed, 405, "invalid_request_error"},
                      {errc::payload_too_large, 413, "request_too_large"},
                      {errc::rate_limit_exceeded, 429, "rate_limit_error"},
                      {errc::internal, 500, "api_error"},
                      {errc::pipeline_lost, 500, "api_error"},
                      {errc::deadline_exceeded, 504, "timeout_error"},
                      {errc::no_job_ticket, 529, "overloaded_error"},
                      {errc::not_ready, 529, "overloaded_error"}};
  for (const auto& [code, status, type] : rows) {
    CAPTURE(type);
    const auto reply = anthropic_failure(error{code, "why", {}});
    CHECK(reply.status == status);
    CHECK(json::parse(reply.body)["error"]["type"] == type);
    CHECK(json::parse(reply.body)["type"] == "error");
    CHECK(testing::header_of(reply, "Retry-After").empty() != row_of(code).retryable);
  }
  CHECK(json::parse(anthropic_error_body(
            error{errc::unsupported_parameter, "why", "thread"}))["error"]["details"] ==
        json::parse(R"({"error_code":"thread_unsupported_request","unsupported":["thread"]})"));
  rejected no;
  no.reason = fail(errc::no_job_ticket, "full");
  no.retry_after = std::chrono::seconds(3);
  CHECK(anthropic_refusal(no, 503).status == 529);
  CHECK(testing::header_of(anthropic_refusal(no, 503), "Retry-After") == "3");
}

TEST_CASE("the id of the request is in the body and in the API's header") {
  reply_framing framing;
  framing.request_id = "r\"1";
  framing.id_header = "request-id";
  const auto text = render(anthropic_failure(fail(errc::internal, "why")), framing);
  CHECK(text.find("\r\nrequest-id: r\"1\r\n") != text.npos);
  const auto body = text.substr(text.find("\r\n\r\n") + 4);
  CHECK(json::parse(body)["request_id"] == "r\"1");
  CHECK(text.find("Content-Length: " + std::to_string(body.size())) != text.npos);
}
