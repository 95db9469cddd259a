// The events and the object of a response: their order and numbers, and that a stored response
// repeats them.
#include "gateway/api/responses/responses_reply.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

response_shape response_shape_of(bool has_calls = false, bool is_constrained = false) {
  response_shape s;
  s.model = "m";
  s.asked = R"({"instructions":null,"metadata":{}})";
  if (has_calls) {
    s.calls = std::make_shared<const call_reading>(
        call_reading{call_format::hermes, {"f", "g"}, is_constrained});
  }
  return s;
}

chunk response_chunk(std::uint32_t index, std::string text, finish how = finish::none) {
  chunk c;
  c.index = c.output_tokens = index;
  c.text = std::move(text);
  c.finish = how;
  c.prompt_tokens = 5;
  c.cached_tokens = 4;
  return c;
}

struct response_event {
  std::string type;
  json data;
};

std::vector<response_event> response_events_of(const std::string& text) {
  std::vector<response_event> all;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("event: ")) {
      all.push_back({line.substr(7), {}});
    } else if (line.starts_with("data: ")) {
      all.back().data = json::parse(line.substr(6));
      CHECK(all.back().data["type"] == all.back().type);
    } else {
      CHECK(line.empty());
    }
  }
  return all;
}

std::vector<std::string> types_of(const std::vector<response_event>& events) {
  std::vector<std::string> types;
  for (const auto& e : events) {
    types.push_back(e.type.substr(std::string("response.").size()));
  }
  return types;
}

} // namespace

TEST_CASE("a text comes as OpenAI's events, numbered from 0") {
  response_events writer(response_shape_of(), testing::answerer);
  std::string out;
  writer.add(response_chunk(1, "He\"l"), out);
  writer.add(response_chunk(2, ""), out); // text held back: no event
  writer.add(response_chunk(3, "lo", finish::stop), out);
  CHECK(writer.has_ended());
  writer.add(response_chunk(4, "late"), out);
  writer.fail(fail(errc::internal, "late"), out);
  const auto events = response_events_of(out);
  CHECK(types_of(events) == std::vector<std::string>{
                                "created", "in_progress", "output_item.added", "content_part.added",
                                "output_text.delta", "output_text.delta", "output_text.done",
                                "content_part.done", "output_item.done", "completed"});
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].data["sequence_number"] == i);
  }
  CHECK(events[0].data["response"]["status"] == "in_progress");
  CHECK(events[0].data["response"]["output"].empty());
  CHECK(events[0].data["response"]["usage"].is_null());
  CHECK(events[4].data["delta"] == "He\"l");
  CHECK(events[4].data["item_id"] == events[2].data["item"]["id"]);
  CHECK(events[6].data["text"] == "He\"llo");
  const auto& done = events.back().data["response"];
  CHECK(done["id"] == "resp_9_00000000000000ab");
  CHECK(done["status"] == "completed");
  CHECK(done["output"][0] == events[8].data["item"]);
  CHECK(done["output"][0]["content"][0]["text"] == "He\"llo");
  CHECK(done["usage"] == json{{"input_tokens", 5},
                              {"input_tokens_details", {{"cached_tokens", 4}}},
                              {"output_tokens", 3},
                              {"output_tokens_details", {{"reasoning_tokens", 0}}},
                              {"total_tokens", 8}});
  CHECK(done["metadata"].is_object());
}

TEST_CASE("a non-streamed answer equals the last event") {
  for (const auto how : {finish::stop, finish::length}) {
    response_events writer(response_shape_of(), testing::answerer);
    std::string out;
    response_unary whole(response_shape_of(), nullptr);
    for (const auto& c : {response_chunk(1, "a"), response_chunk(2, "b", how)}) {
      writer.add(c, out);
      whole.add(c);
    }
    REQUIRE(whole.is_complete());
    const auto body = json::parse(whole.reply(testing::answerer, {}).body);
    CHECK(body == response_events_of(out).back().data["response"]);
    CHECK(body["status"] == (how == finish::stop ? "completed" : "incomplete"));
    CHECK(body["incomplete_details"].is_null() == (how == finish::stop));
    CHECK(response_events_of(out).back().type ==
          (how == finish::stop ? "response.completed" : "response.incomplete"));
  }
}

TEST_CASE("an empty answer has one empty message") {
  response_events writer(response_shape_of(), testing::answerer);
  std::string out;
  writer.add(response_chunk(1, "", finish::stop), out);
  const auto events = response_events_of(out);
  REQUIRE(events.back().type == "response.completed");
  const auto& output = events.back().data["response"]["output"];
  REQUIRE(output.size() == 1);
  CHECK(output[0]["content"][0]["text"] == "");
}

TEST_CASE("text and calls are items of their own") {
  response_events writer(response_shape_of(true), testing::answerer);
  std::string out;
  const std::string text =
      "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  for (std::size_t at = 0; at < text.size(); at += 3) {
    writer.add(response_chunk(static_cast<std::uint32_t>(at / 3 + 1), text.substr(at, 3)), out);
  }
  writer.add(response_chunk(99, "", finish::stop), out);
  const auto events = response_events_of(out);
  const auto& output = events.back().data["response"]["output"];
  REQUIRE(output.size() == 3);
  CHECK(output[0]["content"][0]["text"] == "I look.");
  CHECK(output[1]["type"] == "function_call");
  CHECK(output[1]["name"] == "f");
  CHECK(output[1]["status"] == "completed");
  CHECK(json::parse(output[1]["arguments"].get<std::string>()) == json{{"x", 1}});
  CHECK(output[2]["name"] == "g");
  CHECK(output[1]["call_id"] != output[2]["call_id"]);
  std::string arguments;
  for (const auto& e : events) {
    if (e.type == "response.function_call_arguments.delta" && e.data["output_index"] == 1) {
      arguments += e.data["delta"].get<std::string>();
    }
  }
  CHECK(arguments == output[1]["arguments"]);
  const auto message = writer.message();
  CHECK(message.content == "I look.");
  const auto calls = json::parse(message.tool_calls);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["id"] == output[1]["call_id"]);
  CHECK(calls[0]["function"]["arguments"] == json{{"x", 1}});
}

TEST_CASE("a truncated call is incomplete, and not part of the conversation") {
  response_events writer(response_shape_of(true, true), testing::answerer);
  std::string out;
  writer.add(response_chunk(1, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": "), out);
  writer.add(response_chunk(2, "", finish::length), out);
  const auto events = response_events_of(out);
  const auto& output = events.back().data["response"]["output"];
  REQUIRE(output.size() == 1);
  CHECK(output[0]["type"] == "function_call");
  CHECK(output[0]["status"] == "incomplete");
  CHECK(writer.message().tool_calls.empty());
}

TEST_CASE("a stored response repeats the same events, from any number on") {
  for (const bool has_calls : {false, true}) {
    std::optional<answer_log> kept;
    response_events writer(response_shape_of(has_calls), testing::answerer,
                           [&](const reply_identity&, answer_log log) { kept = std::move(log); });
    std::string all;
    const std::string text =
        has_calls ? "a<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>" : "one two three";
    for (std::uint32_t i = 0; i < text.size(); ++i) {
      writer.add(response_chunk(i + 1, text.substr(i, 1)), all);
    }
    CHECK_FALSE(kept);
    writer.add(response_chunk(100, "", finish::stop), all);
    REQUIRE(kept);
    const auto events = response_events_of(all);
    for (std::uint64_t after = 0; after <= events.size(); ++after) {
      response_events again(response_shape_of(has_calls), testing::answerer, nullptr, after);
      std::string rest;
      for (std::size_t i = 0; i < kept->size(); ++i) {
        again.add(kept->piece(i), rest);
      }
      CHECK(again.has_ended());
      CHECK(all.ends_with(rest));
      CHECK(response_events_of(rest).size() == events.size() - std::min(events.size(), after + 1));
    }
    CHECK(json::parse(response_body(response_shape_of(has_calls), testing::answerer, *kept,
                                    std::nullopt)) == events.back().data["response"]);
  }
}

TEST_CASE("a failure ends it, with the text so far") {
  response_events writer(response_shape_of(), testing::answerer);
  std::string out;
  writer.add(response_chunk(1, "half"), out);
  writer.fail(fail(errc::pipeline_lost, "gone"), out);
  CHECK(writer.has_ended());
  const auto events = response_events_of(out);
  REQUIRE(events.back().type == "response.failed");
  const auto& r = events.back().data["response"];
  CHECK(r["status"] == "failed");
  CHECK(r["error"] == json{{"code", "pipeline_lost"}, {"message", "gone"}});
  CHECK(r["output"][0]["content"][0]["text"] == "half");
  CHECK(r["output"][0]["status"] == "incomplete");
  answer_log log;
  log.add(response_chunk(1, "half"));
  CHECK(json::parse(response_body(response_shape_of(), testing::answerer, log,
                                  fail(errc::cancelled, "x")))["status"] == "cancelled");
}

TEST_CASE("in the background a response is queued before it starts") {
  auto shape = response_shape_of();
  shape.is_background = true;
  answer_log log;
  CHECK(json::parse(response_body(shape, testing::answerer, log, std::nullopt))["status"] ==
        "queued");
  log.add(response_chunk(1, "a"));
  const auto body = json::parse(response_body(shape, testing::answerer, log, std::nullopt));
  CHECK(body["status"] == "in_progress");
  CHECK(body["output"][0]["status"] == "in_progress");
}
