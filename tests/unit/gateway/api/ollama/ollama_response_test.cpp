// Answers and errors of Ollama's API: whole, as lines, continued at any id; the served models.
#include "gateway/api/ollama/ollama_embedding.hpp"
#include "gateway/api/ollama/ollama_error.hpp"
#include "gateway/api/ollama/ollama_model.hpp"
#include "gateway/api/ollama/ollama_response.hpp"
#include "gateway/request/json_reader.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace baton;
using namespace baton::gateway;

namespace {

using std::chrono::milliseconds;
using ticks = reply_times::clock::time_point;

// A clock that moves by 10 ms each time that it is read, from 100 ms on.
milliseconds ollama_now{0};
ticks ollama_tick() {
  ollama_now += milliseconds(10);
  return ticks(ollama_now);
}
std::chrono::system_clock::time_point ollama_date() {
  return std::chrono::system_clock::time_point(milliseconds(1'700'000'000'250));
}

ollama_shape lines_shape(ollama_route route = ollama_route::chat, bool has_calls = false) {
  ollama_now = milliseconds(100);
  ollama_shape s{.route = route, .is = {}, .clock = {&ollama_tick, &ollama_date}};
  s.is.model = "m:latest";
  if (has_calls) {
    s.is.calls = std::make_shared<const call_reading>(
        call_reading{call_format::hermes, {"f", "g"}, /*is_constrained=*/false});
  }
  return s;
}

chunk line_chunk(std::uint32_t index, std::string text, finish how = finish::none) {
  chunk c;
  c.index = c.output_tokens = index;
  c.text = std::move(text);
  c.finish = how;
  c.prompt_tokens = 5;
  if (how != finish::none) {
    c.prepare_micros = 20'000;
    c.queue_micros = 30'000;
  }
  return c;
}

reply_times line_times() {
  return {.read = ticks(milliseconds(1)),
          .opened = ticks(milliseconds(2)),
          .granted = ticks(milliseconds(10)),
          .ended = {}};
}

json whole_answer_of(ollama_shape shape, const std::vector<chunk>& chunks) {
  ollama_unary writer(std::move(shape));
  for (const auto& c : chunks) {
    CHECK_FALSE(writer.is_complete());
    writer.add(c);
  }
  REQUIRE(writer.is_complete());
  auto when = line_times();
  when.ended = ollama_tick();
  return json::parse(writer.reply(testing::answerer, when).body);
}

std::string streamed_lines(ollama_shape shape, const std::vector<chunk>& chunks,
                           const std::optional<stream_position>& from = std::nullopt) {
  auto who = testing::answerer;
  who.times = line_times();
  ollama_stream writer(std::move(shape), who, from);
  std::string out;
  for (const auto& c : chunks) {
    writer.add(c, out);
  }
  CHECK(writer.has_ended());
  return out;
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> all;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    all.push_back(json::parse(line));
  }
  return all;
}

// Without the members that differ between two streams of the same answer.
std::vector<json> same_lines(const std::string& text) {
  auto all = lines_of(text);
  for (auto& line : all) {
    for (const auto* name :
         {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}) {
      line.erase(name);
    }
  }
  return all;
}

constexpr const char* called = "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, "
                               "\"a\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
                               "\"arguments\": {}}\n</tool_call>";

std::vector<chunk> chunks_of(std::string_view text, std::size_t size) {
  std::vector<chunk> all;
  for (std::size_t at = 0; at < text.size(); at += size) {
    all.push_back(
        line_chunk(static_cast<std::uint32_t>(all.size() + 1), std::string(text.substr(at, size))));
  }
  all.push_back(line_chunk(static_cast<std::uint32_t>(all.size()), "", finish::stop));
  return all;
}

} // namespace

TEST_CASE("a whole answer of Ollama's API, with its counts and durations") {
  const auto body =
      whole_answer_of(lines_shape(), {line_chunk(1, "a"), line_chunk(2, "b", finish::stop)});
  CHECK(body == json::parse(R"({"model":"m:latest","created_at":"2023-11-14T22:13:20.250000000Z",
    "message":{"role":"assistant","content":"ab"},"done":true,"done_reason":"stop",
    "total_duration":119000000,"load_duration":59000000,"prompt_eval_count":5,
    "prompt_eval_duration":50000000,"eval_count":2,"eval_duration":10000000})"));
  const auto text =
      whole_answer_of(lines_shape(ollama_route::generate), {line_chunk(1, "a", finish::length)});
  CHECK(text["response"] == "a");
  CHECK_FALSE(text.contains("message"));
  CHECK(text["done_reason"] == "length");
}

TEST_CASE("the durations of a continued answer are not negative") {
  auto late = line_chunk(1, "a", finish::stop);
  late.queue_micros = 10'000'000; // at a gateway that was lost
  const auto body = whole_answer_of(lines_shape(), {late});
  CHECK(body["prompt_eval_duration"] == 0);
  CHECK(body["total_duration"] ==
        body["load_duration"].get<std::int64_t>() + body["eval_duration"].get<std::int64_t>());
}

TEST_CASE("the lines of a text") {
  const auto lines = lines_of(
      streamed_lines(lines_shape(), {line_chunk(1, "a"), line_chunk(2, "\"\n", finish::stop)}));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["message"] == json{{"role", "assistant"}, {"content", "a"}});
  CHECK(lines[0]["done"] == false);
  CHECK(lines[0]["model"] == "m:latest");
  CHECK(lines[0]["created_at"] == "2023-11-14T22:13:20.250000000Z");
  CHECK(lines[0].contains("id"));
  CHECK(lines[1]["message"]["content"] == "\"\n");
  CHECK_FALSE(lines[1].contains("id")); // the same chunk has the end
  CHECK(lines[2]["message"]["content"] == "");
  CHECK(lines[2]["done"] == true);
  CHECK(lines[2]["done_reason"] == "stop");
  CHECK(lines[2]["eval_count"] == 2);
  CHECK(lines[2]["prompt_eval_count"] == 5);
  CHECK(lines[2]["load_duration"] == 59'000'000);
  CHECK(lines[2]["prompt_eval_duration"] == 50'000'000);
  CHECK(lines[2]["eval_duration"] == 10'000'000);
  CHECK(lines[2]["total_duration"] == 119'000'000);
  const auto text = lines_of(
      streamed_lines(lines_shape(ollama_route::generate), {line_chunk(1, "a", finish::stop)}));
  CHECK(text[0]["response"] == "a");
  CHECK(text[1]["response"] == "");
}

TEST_CASE("calls of Ollama's API are whole, however the text is split") {
  const auto whole = whole_answer_of(lines_shape(ollama_route::chat, true), chunks_of(called, 100));
  CHECK(whole["message"]["content"] == "I look.");
  CHECK(whole["done_reason"] == "stop");
  const auto& calls = whole["message"]["tool_calls"];
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["function"] == json::parse(R"({"index":0,"name":"f","arguments":{"b":1,"a":2}})"));
  CHECK(calls[1]["function"] == json::parse(R"({"index":1,"name":"g","arguments":{}})"));
  CHECK(calls[0]["id"] != calls[1]["id"]);
  for (const std::size_t size : {1, 3, 7, 1000}) {
    CAPTURE(size);
    std::string content;
    auto streamed = json::array();
    for (const auto& line :
         lines_of(streamed_lines(lines_shape(ollama_route::chat, true), chunks_of(called, size)))) {
      content += line["message"]["content"].get<std::string>();
      if (line["message"].contains("tool_calls")) {
        streamed.insert(streamed.end(), line["message"]["tool_calls"].begin(),
                        line["message"]["tool_calls"].end());
      }
    }
    CHECK(content == "I look.");
    CHECK(streamed == calls);
  }
}

TEST_CASE("a call that the token limit cuts has no arguments") {
  auto shape = lines_shape();
  shape.is.calls = std::make_shared<const call_reading>(
      call_reading{call_format::hermes, {"f"}, /*is_constrained=*/true});
  const std::vector<chunk> cut{
      line_chunk(1, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x", finish::length)};
  const auto body = whole_answer_of(shape, cut);
  CHECK(body["done_reason"] == "length");
  CHECK(body["message"]["tool_calls"][0]["function"]["arguments"] == json::object());
  const auto lines = lines_of(streamed_lines(shape, cut));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["message"]["tool_calls"] == body["message"]["tool_calls"]);
}

TEST_CASE("lines continue at each of their ids") {
  for (const bool has_calls : {false, true}) {
    CAPTURE(has_calls);
    const auto shape = lines_shape(ollama_route::chat, has_calls);
    const auto chunks = chunks_of(called, 7);
    const auto all = streamed_lines(shape, chunks);
    std::size_t ids = 0;
    for (auto at = all.find("\"id\":\"9-"); at != all.npos; at = all.find("\"id\":\"9-", at + 1)) {
      ++ids;
      const auto position = parse_position(all.substr(at + 6, all.find('"', at + 6) - at - 6), 1);
      REQUIRE(position);
      const auto rest = all.substr(all.find('\n', at) + 1);
      const auto again = streamed_lines(shape, chunks, *position);
      // Behind the end, its last line is repeated, so that the client sees it.
      CHECK((rest.empty() ? lines_of(again).size() == 1 : same_lines(again) == same_lines(rest)));
    }
    CHECK(ids > 2); // a call is one line
  }
}

TEST_CASE("log-probabilities are in the lines of their tokens") {
  auto shape = lines_shape();
  shape.is.has_logprobs = true;
  auto one = line_chunk(1, "a"), two = line_chunk(2, "b", finish::stop);
  one.details.push_back({.chosen = {"a", 1, -0.5F, false}, .top = {{"c", 3, -1, false}}});
  two.details.push_back({.chosen = {"b", 2, -0.25F, false}, .top = {}});
  const auto whole = whole_answer_of(shape, {one, two});
  CHECK(whole["logprobs"] == json::parse(R"([{"token":"a","logprob":-0.5,"bytes":[97],
    "top_logprobs":[{"token":"c","logprob":-1.0,"bytes":[99]}]},
    {"token":"b","logprob":-0.25,"bytes":[98],"top_logprobs":[]}])"));
  const auto lines = lines_of(streamed_lines(shape, {one, two}));
  CHECK(lines[0]["logprobs"] == json::array({whole["logprobs"][0]}));
  CHECK(lines[1]["logprobs"] == json::array({whole["logprobs"][1]}));
  CHECK_FALSE(lines[2].contains("logprobs"));
}

TEST_CASE("a failure is the last line, once") {
  ollama_stream writer(lines_shape(), testing::answerer);
  std::string out;
  writer.add(line_chunk(1, "a"), out);
  out.clear();
  writer.fail(fail(errc::internal, "broken"), out);
  CHECK(writer.has_ended());
  writer.fail(fail(errc::internal, "again"), out);
  writer.add(line_chunk(2, "b", finish::stop), out);
  CHECK(out == "{\"error\":\"broken\"}\n");
}

TEST_CASE("errors of Ollama's API") {
  CHECK(ollama_error_body(error{errc::invalid_value, "why", "options.stop"}) ==
        R"({"error":"options.stop: why"})");
  const auto unknown = ollama_failure(ollama_model_not_found("x"));
  CHECK(unknown.status == 404);
  CHECK(unknown.body == R"({"error":"model 'x' not found"})");
  CHECK(ollama_not_carried_out("push models").status == 403);
  rejected no;
  no.reason = fail(errc::no_job_ticket, "full");
  no.retry_after = std::chrono::seconds(3);
  CHECK(ollama_refusal(no, 429).status == 429);
  CHECK(ollama_refusal(no, 503).body == R"({"error":"full"})");
  CHECK(testing::header_of(ollama_refusal(no, 503), "Retry-After") == "3");
  no.reason = fail(errc::not_ready, "loads");
  CHECK(ollama_refusal(no, 429).status == 503);
}

TEST_CASE("names of models have tags, and a client may leave out :latest") {
  CHECK(tagged_name("a") == "a:latest");
  CHECK(tagged_name("a:7b") == "a:7b");
  CHECK(tagged_name("host:80/a") == "host:80/a:latest");
  const std::vector<std::string> served{"a", "b:latest", "c:7b"};
  CHECK(served_name(served, "a") == "a");
  CHECK(served_name(served, "a:latest") == "a");
  CHECK(served_name(served, "b") == "b:latest");
  CHECK(served_name(served, "c:7b") == "c:7b");
  CHECK_FALSE(served_name(served, "c"));
  CHECK_FALSE(served_name(served, "a:7b"));
  CHECK_FALSE(served_name(served, ""));
}

TEST_CASE("the served models in Ollama's words") {
  model_card card;
  card.name = "small";
  card.architecture = "llama";
  card.parameters = 134'515'008;
  card.max_model_len = 2048;
  card.created = 1'700'000'000;
  card.has_chat_template = true;
  card.sampling.temperature = 0.6F;
  const std::vector<listed_model> all{{"small", card}, {"alias:1", card}};
  const auto tags = json::parse(ollama_tags_body(all))["models"];
  REQUIRE(tags.size() == 2);
  CHECK(tags[0]["name"] == "small:latest");
  CHECK(tags[0]["model"] == "small:latest");
  CHECK(tags[1]["name"] == "alias:1");
  CHECK(tags[0]["digest"].get<std::string>().size() == 64);
  CHECK(tags[0]["digest"] == tags[1]["digest"]);
  CHECK(tags[0]["modified_at"] == "2023-11-14T22:13:20.000000000Z");
  CHECK(tags[0]["details"]["parameter_size"] == "134.52M");
  CHECK(tags[0]["details"]["family"] == "llama");
  const auto running = json::parse(ollama_ps_body(all))["models"];
  CHECK(running[0]["context_length"] == 2048);
  CHECK(running[0]["expires_at"] == "9999-12-31T23:59:59Z");
  auto kept = all;
  kept[0].expires_at = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'300));
  CHECK(json::parse(ollama_ps_body(kept))["models"][0]["expires_at"] ==
        "2023-11-14T22:18:20.000000000Z");
  const auto shown = json::parse(ollama_show_body(all[0]));
  CHECK(shown["capabilities"] == json{"completion", "tools"});
  CHECK(shown["model_info"]["llama.context_length"] == 2048);
  CHECK(shown["parameters"].get<std::string>().starts_with("temperature"));
}

TEST_CASE("embeddings of Ollama's API") {
  ollama_embed asked{.model = "m", .requests = {generate{}, generate{}}};
  ollama_embedding writer(asked);
  for (const std::uint32_t choice : {1U, 0U}) {
    auto c = line_chunk(0, "", finish::stop);
    c.choice = choice;
    c.embedding = {0.5F, choice == 0 ? 1.0F : 0.0F};
    writer.add(c);
  }
  REQUIRE(writer.is_complete());
  auto when = line_times();
  when.ended = ticks(milliseconds(101));
  CHECK(json::parse(writer.reply(testing::answerer, when).body) ==
        json::parse(R"({"model":"m","embeddings":[[0.5,1.0],[0.5,0.0]],"total_duration":100000000,
          "load_duration":59000000,"prompt_eval_count":10})"));
  asked.requests.resize(1);
  asked.is_older = true;
  ollama_embedding older(asked);
  auto c = line_chunk(0, "", finish::stop);
  c.embedding = {0.5F};
  older.add(c);
  CHECK(older.reply(testing::answerer, when).body == R"({"embedding":[0.5]})");
}
