// Typed answers to OpenAI's JSON, whole and as events.
#include "gateway/api/openai/reply/openai_logprobs.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/base/json_text.hpp"
#include "gateway/request/response_writer.hpp"
#include "tests/unit/gateway/api/openai/answer_chunks.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <sstream>

using namespace baton;
using namespace baton::gateway;
using namespace baton::testing;
using nlohmann::json;

TEST_CASE("a whole chat answer has OpenAI's shape") {
  openai_unary r(openai_shape(openai_api::chat));
  r.add(answer_chunk(1, "Hello"));
  CHECK_FALSE(r.is_complete());
  r.add(answer_chunk(2, " world", finish::stop));
  REQUIRE(r.is_complete());
  const auto j = json::parse(r.body(testing::answerer));
  CHECK(j["id"] == "chatcmpl-9");
  CHECK(j["object"] == "chat.completion");
  CHECK(j["created"] == 1'700'000'000);
  CHECK(j["model"] == "m");
  const auto& c = j["choices"][0];
  CHECK(c["message"]["role"] == "assistant");
  CHECK(c["message"]["content"] == "Hello world");
  CHECK(c["finish_reason"] == "stop");
  CHECK(c["logprobs"].is_null());
  CHECK(j["usage"] == json{{"prompt_tokens", 5},
                           {"completion_tokens", 2},
                           {"total_tokens", 7},
                           {"prompt_tokens_details", {{"cached_tokens", 4}}}});
}

TEST_CASE("several choices are collected separately, with the usage of all") {
  openai_unary r(openai_shape(openai_api::completions, 2));
  auto other = answer_chunk(3, "b", finish::length);
  other.choice = 1;
  r.add(answer_chunk(1, "a", finish::stop));
  r.add(other);
  const auto j = json::parse(r.body(testing::answerer));
  CHECK(j["object"] == "text_completion");
  CHECK(j["id"] == "cmpl-9");
  CHECK(j["choices"][0]["text"] == "a");
  CHECK(j["choices"][1]["text"] == "b");
  CHECK(j["choices"][1]["finish_reason"] == "length");
  CHECK(j["usage"]["completion_tokens"] == 4);
}

TEST_CASE("a chat stream starts with the role, has deltas only and one terminal event") {
  auto shape = openai_shape(openai_api::chat);
  shape.includes_usage = true;
  openai_stream w(shape, testing::answerer);
  std::string out;
  w.add(answer_chunk(1, "He\"llo\n\xC3\xA9"), out);
  w.add(answer_chunk(2, ""), out); // text held back: no event
  w.add(answer_chunk(3, " end", finish::stop), out);
  CHECK(w.has_ended());
  w.add(answer_chunk(4, "late"), out);
  w.fail(fail(errc::internal, "late"), out);
  const auto events = openai_events(out);
  REQUIRE(events.size() == 6);
  CHECK(events[0].id == "9-00000000000000ab:0"); // no text yet
  const auto role = json::parse(events[0].data);
  CHECK(role["object"] == "chat.completion.chunk");
  CHECK(role["choices"][0]["delta"] == json{{"role", "assistant"}, {"content", ""}});
  CHECK(role["usage"].is_null());
  const auto text = json::parse(events[1].data);
  CHECK(text["choices"][0]["delta"] == json{{"content", "He\"llo\n\xC3\xA9"}});
  CHECK(text["choices"][0]["finish_reason"].is_null());
  CHECK(json::parse(events[2].data)["choices"][0]["delta"]["content"] == " end");
  CHECK(events[1].id == "9-00000000000000ab:1");
  CHECK(events[2].id == "9-00000000000000ab:3");
  CHECK(events[3].id == "9-00000000000000ab:3!");
  const auto last = json::parse(events[3].data);
  CHECK(last["choices"][0]["delta"] == json::object());
  CHECK(last["choices"][0]["finish_reason"] == "stop");
  const auto usage = json::parse(events[4].data);
  CHECK(usage["choices"] == json::array());
  CHECK(usage["usage"]["completion_tokens"] == 3);
  CHECK(events[5].data == "[DONE]");
}

TEST_CASE("continuous usage is that of the choice so far, the final one that of all") {
  auto shape = openai_shape(openai_api::chat, 2);
  shape.includes_usage = shape.has_running_usage = true;
  openai_stream w(shape, testing::answerer);
  std::string out;
  const auto of = [](chunk c, std::uint32_t choice) {
    c.choice = choice;
    c.prompt_tokens = 7;
    c.cached_tokens = 4;
    return c;
  };
  w.add(of(answer_chunk(1, "a"), 0), out);
  w.add(of(answer_chunk(2, "b"), 1), out);
  w.add(of(answer_chunk(3, "c", finish::stop), 1), out);
  w.add(of(answer_chunk(2, "d", finish::length), 0), out);
  std::vector<std::array<int, 3>> parsed;
  for (const auto& e : openai_events(out)) {
    if (e.data == "[DONE]") {
      continue;
    }
    const auto usage = json::parse(e.data)["usage"];
    parsed.push_back({usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]});
    CHECK(usage["prompt_tokens_details"]["cached_tokens"] == 4);
  }
  CHECK(parsed == std::vector<std::array<int, 3>>{{7, 0, 7},    // the role of choice 0
                                                  {7, 1, 8},    // "a"
                                                  {7, 0, 7},    // the role of choice 1
                                                  {7, 2, 9},    // "b"
                                                  {7, 3, 10},   // "c"
                                                  {7, 3, 10},   // the end of choice 1
                                                  {7, 2, 9},    // "d"
                                                  {7, 2, 9},    // the end of choice 0
                                                  {7, 5, 12}}); // all
  CHECK(w.has_ended());
}

TEST_CASE("a completion stream has text and no role") {
  openai_stream w(openai_shape(openai_api::completions), testing::answerer);
  std::string out;
  w.add(answer_chunk(1, "a"), out);
  w.add(answer_chunk(2, "", finish::length), out);
  const auto events = openai_events(out);
  REQUIRE(events.size() == 3);
  CHECK(json::parse(events[0].data)["choices"][0]["text"] == "a");
  CHECK_FALSE(json::parse(events[0].data).contains("usage"));
  CHECK(json::parse(events[1].data)["choices"][0]["finish_reason"] == "length");
}

TEST_CASE(
    "with several choices the stream ends after the last of them, ids have each one's position") {
  openai_stream w(openai_shape(openai_api::chat, 2), testing::answerer);
  std::string out;
  auto second = answer_chunk(1, "b", finish::stop);
  second.choice = 1;
  w.add(second, out);
  CHECK_FALSE(w.has_ended());
  w.add(answer_chunk(1, "a", finish::stop), out);
  CHECK(w.has_ended());
  const auto events = openai_events(out);
  CHECK(events.front().id == "9-00000000000000ab:0,0");
  CHECK(events[2].id == "9-00000000000000ab:0,1!");
  CHECK(events.back().data == "[DONE]");
}

TEST_CASE("a client that resumes anywhere gets the rest, and nothing twice") {
  auto shape = openai_shape(openai_api::chat);
  shape.includes_usage = true;
  const auto words = std::vector<std::string>{"a", "b", "c"};
  const auto write = [&](openai_stream& w, std::uint32_t from) {
    std::string out;
    for (std::uint32_t i = from; i < words.size(); ++i)
      w.add(answer_chunk(i + 1, words[i]), out);
    w.add(answer_chunk(static_cast<std::uint32_t>(words.size()), "", finish::stop), out);
    return openai_events(out);
  };
  openai_stream whole_writer(shape, testing::answerer);
  const auto whole = write(whole_writer, 0);
  REQUIRE(whole.size() == 7); // role, three words, finish, usage, [DONE]
  for (std::size_t had = 1; had < whole.size(); ++had) {
    CAPTURE(had);
    const auto place = parse_position(whole[had - 1].id, 1);
    REQUIRE(place);
    openai_stream w(shape, testing::answerer, *place);
    const auto rest = write(w, place->from[0].index);
    CHECK(w.has_ended());
    // After the role alone it is sent again, which repeats no text.
    const std::size_t again = had == 1 ? 1 : 0;
    // The usage has the id of the finish event: a client that has only one of them gets the usage.
    const std::size_t usage = had == 6 ? 1 : 0;
    REQUIRE(rest.size() == whole.size() - had + again + usage);
    for (std::size_t i = 0; i < rest.size(); ++i)
      CHECK(rest[i].data == whole[had - again - usage + i].data);
  }
}

TEST_CASE("the likeliest of several answers are returned, and the usage counts all") {
  auto shape = openai_shape(openai_api::completions, 2);
  shape.best_of = 3;
  openai_unary r(shape);
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto c = answer_chunk(1, std::string(1, static_cast<char>('a' + i)), finish::stop);
    c.choice = i;
    c.details = {{{c.text, 7, i == 1 ? -3.0F : -1.0F - static_cast<float>(i)}, {}}};
    CHECK_FALSE(r.is_complete());
    r.add(c);
  }
  REQUIRE(r.is_complete());
  const auto j = json::parse(r.body(testing::answerer));
  REQUIRE(j["choices"].size() == 2);
  CHECK(j["choices"][0]["text"] == "a");
  CHECK(j["choices"][1]["text"] == "b"); // the earlier one of equals
  CHECK(j["choices"][1]["index"] == 1);
  CHECK(j["choices"][0]["logprobs"].is_null());
  CHECK(j["usage"]["completion_tokens"] == 3);
}

TEST_CASE("an echo precedes each answer, once, also after a resume") {
  auto shape = openai_shape(openai_api::completions, 2);
  shape.echo = {"say: "};
  openai_unary whole(shape);
  openai_stream w(shape, testing::answerer);
  std::string out;
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto c = answer_chunk(1, i == 0 ? "x" : "");
    c.choice = i;
    whole.add(c);
    w.add(c, out);
    auto end = answer_chunk(i == 0 ? 2 : 1, i == 0 ? "y" : "", finish::stop);
    end.choice = i;
    whole.add(end);
    w.add(end, out);
  }
  const auto j = json::parse(whole.body(testing::answerer));
  CHECK(j["choices"][0]["text"] == "say: xy");
  CHECK(j["choices"][1]["text"] == "say: ");
  std::string texts[2];
  for (const auto& e : openai_events(out)) {
    if (e.data != "[DONE]") {
      const auto choice = json::parse(e.data)["choices"][0];
      texts[choice["index"].get<std::size_t>()] += choice["text"].get<std::string>();
    }
  }
  CHECK(texts[0] == "say: xy");
  CHECK(texts[1] == "say: ");
  const auto place = parse_position(openai_events(out)[0].id, 2); // behind "say: x"
  REQUIRE(place);
  openai_stream rest(shape, testing::answerer, *place);
  out.clear();
  rest.add(answer_chunk(2, "y"), out);
  CHECK(json::parse(openai_events(out)[0].data)["choices"][0]["text"] == "y");
}

TEST_CASE("an echo with logprobs has those of the prompt, null for the first token") {
  auto shape = openai_shape(openai_api::completions);
  shape.echo = {"say: "};
  shape.has_logprobs = true;
  openai_unary whole(shape);
  openai_stream w(shape, testing::answerer);
  std::string out;
  auto all = prompt_chunks();
  all.push_back(answer_chunk(1, "x"));
  all.back().details = {{{"x", 7, -1.0F}, {}}};
  all.push_back(answer_chunk(2, "yz", finish::length));
  all.back().details = {{{"yz", 8, -2.0F}, {}}};
  for (const auto& c : all) {
    whole.add(c);
    w.add(c, out);
  }
  const auto one = json::parse(whole.body(testing::answerer))["choices"][0];
  CHECK(one["text"] == "say: xyz");
  const auto& parsed = one["logprobs"];
  CHECK(parsed["tokens"] == json({"sa", "y: ", "x", "yz"}));
  CHECK(parsed["token_logprobs"] == json({nullptr, -1.5, -1.0, -2.0}));
  CHECK(parsed["text_offset"] == json({0, 2, 5, 6}));
  CHECK(parsed["top_logprobs"][0].is_null());
  CHECK(parsed["top_logprobs"][1] == json({{"y", -0.5}}));
  const auto events = openai_events(out);
  REQUIRE(events.size() == 4); // two texts, the end, [DONE]
  const auto first = json::parse(events[0].data)["choices"][0];
  CHECK(first["text"] == "say: x");
  CHECK(first["logprobs"]["tokens"] == json({"sa", "y: ", "x"}));
  const auto second = json::parse(events[1].data)["choices"][0];
  CHECK(second["text"] == "yz");
  CHECK(second["logprobs"]["text_offset"] == json({6}));
  const auto place = parse_position(events[0].id, 1);
  REQUIRE(place);
  openai_stream rest(shape, testing::answerer, *place);
  out.clear();
  auto again = answer_chunk(2, "yz");
  again.details = {{{"yz", 8, -2.0F}, {}}};
  again.characters_before = 1;
  rest.add(again, out);
  CHECK(json::parse(openai_events(out)[0].data)["choices"][0]["logprobs"]["text_offset"] ==
        json({6}));
}

TEST_CASE("an echo without any token after it comes with the end") {
  auto shape = openai_shape(openai_api::completions);
  shape.echo = {""}; // of ids: the text of its tokens
  shape.has_logprobs = true;
  openai_unary whole(shape);
  openai_stream w(shape, testing::answerer);
  std::string out;
  auto all = prompt_chunks();
  all.push_back(answer_chunk(0, "", finish::length));
  all.back().count = 0;
  for (const auto& c : all) {
    whole.add(c);
    w.add(c, out);
  }
  const auto one = json::parse(whole.body(testing::answerer))["choices"][0];
  CHECK(one["text"] == "say: ");
  CHECK(one["finish_reason"] == "length");
  CHECK(one["logprobs"]["token_logprobs"] == json({nullptr, -1.5}));
  const auto events = openai_events(out);
  REQUIRE(events.size() == 2);
  const auto parsed = json::parse(events[0].data)["choices"][0];
  CHECK(parsed["text"] == "say: ");
  CHECK(parsed["logprobs"] == one["logprobs"]);
  CHECK(parsed["finish_reason"] == "length");
}

TEST_CASE("after a resume the offsets of logprobs count the earlier text") {
  auto shape = openai_shape(openai_api::completions);
  shape.has_logprobs = true;
  openai_stream w(shape, testing::answerer, stream_position{{9}, 1, {{4, false}}});
  auto c = answer_chunk(5, "x");
  c.details = {{{"x", 7, -1.0F}, {}}};
  c.characters_before = 21;
  std::string out;
  w.add(c, out);
  const auto first = json::parse(openai_events(out).at(0).data);
  CHECK(first["choices"][0]["logprobs"]["text_offset"] == json::array({21}));
}

TEST_CASE("a stream that fails ends with one error object and [DONE]") {
  openai_stream w(openai_shape(openai_api::chat), testing::answerer);
  std::string out;
  w.fail(fail_param(errc::pipeline_lost, "p", "gone"), out);
  w.fail(fail(errc::internal, "again"), out);
  const auto events = openai_events(out);
  REQUIRE(events.size() == 2);
  CHECK(json::parse(events[0].data) == json{{"error",
                                             {{"message", "gone"},
                                              {"type", "server_error"},
                                              {"param", "p"},
                                              {"code", "pipeline_lost"}}}});
  CHECK(events[1].data == "[DONE]");
}

TEST_CASE("logprobs have OpenAI's two shapes, and minus infinity is a number") {
  token_detail d{{"\xC3", 7, -INFINITY}, {{"a", 1, -0.5F}}};
  const auto chat = json::parse(json_text(logprobs_of({openai_api::chat}, {d}, 0)));
  CHECK(chat["content"][0]["bytes"] == json::array({0xC3}));
  CHECK(chat["content"][0]["logprob"] == -9999.0);
  CHECK(chat["content"][0]["top_logprobs"][0]["token"] == "a");
  token_detail one{{"h\xC3\xA9", 7, -1.0F}, {}};
  const auto text = json::parse(json_text(logprobs_of({openai_api::completions}, {one, one}, 10)));
  CHECK(text["tokens"].size() == 2);
  CHECK(text["text_offset"] == json::array({10, 12}));
  CHECK(text["token_logprobs"][0] == -1.0);
  const auto by_id = json::parse(json_text(logprobs_of({openai_api::chat, true}, {d}, 0)));
  CHECK(by_id["content"][0]["token"] == "token_id:7");
  CHECK(by_id["content"][0]["top_logprobs"][0]["token"] == "token_id:1");
  const auto texts = json::parse(json_text(
      logprobs_of({openai_api::completions, true}, {{{"a", 5, -1.0F}, {{"b", 6, -2.0F}}}}, 0)));
  CHECK(texts["tokens"] == json::array({"token_id:5"}));
  CHECK(texts["top_logprobs"][0].contains("token_id:6"));
}

TEST_CASE("any bytes become a valid JSON string") {
  for (const std::string text : {"", "plain", "\"\\\x01\x1f", "\xff\xfe", "\xF0\x9F\x98\x80"}) {
    std::string out;
    append_json_string(out, text);
    CHECK(json::parse(out).is_string());
  }
}

TEST_CASE("a finish with a failure has a reason") {
  CHECK_FALSE(failure_of(answer_chunk(1, "", finish::stop)));
  CHECK(failure_of(answer_chunk(1, "", finish::failed))->code == errc::internal);
  CHECK(failure_of(answer_chunk(1, "", finish::cancelled))->code == errc::cancelled);
  auto c = answer_chunk(1, "", finish::cancelled);
  c.failure = fail(errc::deadline_exceeded, "late");
  CHECK(failure_of(c)->code == errc::deadline_exceeded);
}

TEST_CASE("a stream that has moved has the ids of its new ticket, and the id of the answer") {
  openai_stream w(openai_shape(openai_api::chat), testing::answerer);
  std::string out;
  w.add(answer_chunk(1, "a"), out);
  w.moved_to(granted{0, ticket_id{73}, epoch_id{1}, 0xCD});
  w.add(answer_chunk(2, "b", finish::stop), out);
  const auto events = openai_events(out);
  REQUIRE(events.size() == 5); // role, a, b, the end, [DONE]
  CHECK(events[1].id == "9-00000000000000ab:1");
  CHECK(events[2].id == "73-00000000000000cd:2");
  CHECK(events[3].id == "73-00000000000000cd:2!");
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(json::parse(events[i].data)["id"] == "chatcmpl-9");
  }
}
