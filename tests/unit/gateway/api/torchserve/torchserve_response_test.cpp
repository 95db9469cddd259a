// Typed answers in TorchServe's formats: whole, in pieces, OpenAI's events as chunks; its errors
// and its metrics.
#include "gateway/api/torchserve/torchserve_error.hpp"
#include "gateway/api/torchserve/torchserve_response.hpp"
#include "gateway/metrics/host_load.hpp"
#include "gateway/metrics/torchserve_metrics.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <charconv>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

chunk torchserve_chunk(std::string text, token_id id) {
  chunk c;
  c.count = 1;
  c.text = std::move(text);
  c.ids = {id};
  return c;
}

chunk end_chunk() {
  chunk c;
  c.finish = finish::stop;
  return c;
}

struct unframed {
  std::vector<std::string> chunks;
  bool has_last = false;
};

// RFC 9112, section 7.1.
unframed unframe(std::string_view bytes) {
  unframed out;
  while (!bytes.empty()) {
    REQUIRE_FALSE(out.has_last); // nothing follows the last chunk
    std::size_t size = 0;
    const auto [at, ec] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), size, 16);
    REQUIRE(ec == std::errc{});
    bytes.remove_prefix(static_cast<std::size_t>(at - bytes.data()));
    REQUIRE(bytes.starts_with("\r\n"));
    bytes.remove_prefix(2);
    out.has_last = size == 0;
    if (size > 0) {
      out.chunks.emplace_back(bytes.substr(0, size));
    }
    bytes.remove_prefix(size);
    REQUIRE(bytes.starts_with("\r\n"));
    bytes.remove_prefix(2);
  }
  return out;
}

json error_json(const error& e) {
  return json::parse(torchserve_failure(e).body);
}

bool has_line(const std::string& text, const std::string& line) {
  return text.find(line) != std::string::npos;
}

} // namespace

TEST_CASE("each piece is a separate chunk, though they go out together") {
  torchserve_pieces pieces({torchserve_format::text, "P "});
  std::string out;
  pieces.add(torchserve_chunk("a", 1), out);
  pieces.add(torchserve_chunk("", 2), out); // half of a character: no piece, and not the last chunk
  pieces.add(torchserve_chunk("b\r\n", 3), out);
  CHECK_FALSE(pieces.has_ended());
  pieces.add(end_chunk(), out);
  CHECK(pieces.has_ended());
  CHECK_FALSE(pieces.is_broken());
  const auto read = unframe(out);
  CHECK(read.chunks == std::vector<std::string>{"P a", "b\r\n"});
  CHECK(read.has_last);
  pieces.add(torchserve_chunk("late", 4), out);
  CHECK(unframe(out).chunks.size() == 2);
}

TEST_CASE("a stream of pieces that fails has no last chunk, and no error text") {
  torchserve_pieces pieces({torchserve_format::json_value});
  std::string out;
  pieces.add(torchserve_chunk("a", 1), out);
  const auto before = out;
  pieces.fail(fail(errc::pipeline_lost, "gone"), out);
  CHECK(out == before);
  CHECK(pieces.has_ended());
  CHECK(pieces.is_broken());
  CHECK_FALSE(unframe(out).has_last);
}

TEST_CASE("pieces of JSON are those of TorchServe's handler for vLLM") {
  torchserve_pieces pieces({torchserve_format::json_value, "", /*has_logprobs=*/true});
  std::string out;
  auto first = torchserve_chunk("h\xC3\xA9\"", 11);
  first.details = {{{"h\xC3\xA9\"", 11, -0.5F}, {{"x", 7, -1.0F}}, 4}};
  pieces.add(first, out);
  auto second = torchserve_chunk("z", 12);
  second.details = {{{"z", 12, -0.25F}, {}, 1}};
  pieces.add(second, out);
  auto last = end_chunk();
  pieces.add(last, out);
  const auto read = unframe(out);
  REQUIRE(read.chunks.size() == 2);
  const auto parsed = json::parse(read.chunks[0]);
  CHECK(parsed["text"] == "h\xC3\xA9\"");
  CHECK(parsed["tokens"] == 11);
  CHECK(parsed["logprobs"]["token_logprobs"] == json{-0.5});
  CHECK(json::parse(read.chunks[1])["logprobs"]["text_offset"] == json{3}); // in characters
}

TEST_CASE("a whole answer is the text, or one piece of JSON") {
  torchserve_unary text({torchserve_format::text, "P "});
  torchserve_unary piece({torchserve_format::json_value});
  for (auto* whole : {&text, &piece}) {
    whole->add(torchserve_chunk("a", 1));
    CHECK_FALSE(whole->is_complete());
    auto last = torchserve_chunk("b", 2);
    last.finish = finish::length;
    whole->add(last);
    CHECK(whole->is_complete());
  }
  CHECK(text.reply({}, {}).body == "P ab");
  CHECK(text.reply({}, {}).content_type == "text/plain; charset=utf-8");
  CHECK(json::parse(piece.reply({}, {}).body) == json{{"text", "ab"}, {"tokens", 2}});
  CHECK(piece.reply({}, {}).content_type == "application/json");
}

TEST_CASE("predictions are one answer, in the order of their instances") {
  torchserve_predictions both(2);
  auto second = torchserve_chunk("b", 2);
  second.choice = 1;
  second.finish = finish::stop;
  both.add(second);
  CHECK_FALSE(both.is_complete());
  both.add(torchserve_chunk("a\"", 1));
  auto first = torchserve_chunk("", 3);
  first.finish = finish::length;
  both.add(first);
  CHECK(both.is_complete());
  CHECK(json::parse(both.reply({}, {}).body) == json{{"predictions", {"a\"", "b"}}});
}

TEST_CASE("OpenAI's events begin with their data, each in a chunk of its own") {
  reply_shape shape;
  shape.api = openai_api::completions;
  shape.is_stream = true;
  std::string out;
  torchserve_events events(shape, {}, /*is_chunked=*/true);
  events.add(torchserve_chunk("a", 1), out);
  auto last = torchserve_chunk("b", 2);
  last.finish = finish::stop;
  events.add(last, out);
  CHECK(events.has_ended());
  const auto read = unframe(out);
  CHECK(read.has_last);
  REQUIRE(read.chunks.size() == 4);
  for (const auto& event : read.chunks) {
    CHECK(event.starts_with("data: "));
    CHECK(event.ends_with("\n\n"));
  }
  CHECK(json::parse(read.chunks[1].substr(6))["choices"][0]["text"] == "b");
  CHECK(read.chunks[3] == "data: [DONE]\n\n");

  std::string plain;
  torchserve_events broken(shape, {}, /*is_chunked=*/false);
  broken.fail(fail(errc::internal, "no"), plain);
  CHECK(plain.starts_with("data: {\"error\""));
  CHECK(plain.ends_with("data: [DONE]\n\n"));
  CHECK(broken.has_failed());
  CHECK_FALSE(broken.is_broken()); // it has reported that
}

TEST_CASE("errors have TorchServe's codes and the names of its exceptions") {
  struct row {
    errc code;
    int status;
    const char* type;
  };
  for (const auto& r : {row{errc::invalid_value, 400, "BadRequestException"},
                        {errc::context_length_exceeded, 400, "BadRequestException"},
                        {errc::unauthorized, 400, "InvalidKeyException"},
                        {errc::forbidden, 403, "BadRequestException"},
                        {errc::not_found, 404, "ResourceNotFoundException"},
                        {errc::model_not_found, 404, "ModelNotFoundException"},
                        {errc::method_not_allowed, 405, "MethodNotAllowedException"},
                        {errc::queue_timeout, 408, "RequestTimeoutException"},
                        {errc::conflict, 409, "ConflictStatusException"},
                        {errc::payload_too_large, 413, "BadRequestException"},
                        {errc::rate_limit_exceeded, 429, "BadRequestException"},
                        {errc::overloaded, 503, "ServiceUnavailableException"},
                        {errc::no_job_ticket, 503, "ServiceUnavailableException"},
                        {errc::draining, 503, "ServiceUnavailableException"},
                        {errc::pipeline_lost, 503, "ServiceUnavailableException"},
                        {errc::deadline_exceeded, 500, "InternalServerException"},
                        {errc::quarantined, 500, "InternalServerException"},
                        {errc::does_not_fit, 507, "InternalServerException"}}) {
    CAPTURE(r.status);
    CAPTURE(r.type);
    const auto e = fail(r.code, "told");
    CHECK(torchserve_failure(e).status == r.status);
    CHECK(error_json(e)["code"] == r.status);
    CHECK(error_json(e)["type"] == r.type);
    CHECK(error_json(e).size() == 3);
  }
  const auto version = fail_param(errc::model_not_found, torchserve_version_param, "no 2.0");
  CHECK(error_json(version)["type"] == "ModelVersionNotFoundException");
  CHECK(error_json(version)["message"] == "no 2.0");
  CHECK(error_json(fail_param(errc::invalid_value, "top_p", "too large"))["message"] ==
        "'top_p': too large");
  // Scripts look for '"status": "Healthy"', and so for '"code": 404'.
  CHECK(torchserve_error_body(fail(errc::not_found, "x")).starts_with("{\n  \"code\": 404,\n"));
}

TEST_CASE("a refusal for load names the model and keeps its reason") {
  const auto busy = torchserve_busy(fail(errc::no_job_ticket, "all 4 slots are taken"), "m");
  CHECK(busy.message.starts_with("Model \"m\" has no worker to serve inference request. Please use "
                                 "scale workers API to add workers."));
  CHECK(has_line(busy.message, "all 4 slots are taken"));
  CHECK(torchserve_busy(fail(errc::internal, "x"), "m").message == "x");
  rejected no;
  no.reason = busy;
  no.retry_after = std::chrono::milliseconds(1500);
  CHECK(torchserve_refusal(no, 429).status == 503); // whatever status the operator chose for others
}

TEST_CASE("a handler's load time is reported by its process") {
  torchserve_metrics m;
  auto load = std::make_shared<worker_load>();
  const std::vector<worker_view> workers{{"play", "1", load}};
  const metric_registry none;
  CHECK(m.text({"WorkerLoadTime"}, none, workers).find("WorkerLoadTime{") == std::string::npos);
  load->tally.loaded("worker-play-0", 9);
  load->tally.loaded("worker-play-0", 1.25); // its next incarnation
  const auto line = "WorkerLoadTime{WorkerName=\"worker-play-0\",Level=\"Host\",Hostname=\"" +
                    host_name() + "\"} 1250\n";
  const auto text = m.text({}, none, workers);
  CHECK(text.find(line) != std::string::npos);
  CHECK(text.find("unit: Milliseconds\n# TYPE WorkerLoadTime gauge") != std::string::npos);
  CHECK(m.text({"QueueTime"}, none, workers).find("WorkerLoadTime") == std::string::npos);
}

TEST_CASE("metrics have TorchServe's names, labels and units") {
  using std::chrono::milliseconds;
  torchserve_metrics m;
  const metric_registry none;
  m.answered(200);
  m.answered(404);
  m.answered(503);
  m.answered(101);
  m.asked("smol", false);
  m.asked("smol", true);
  m.asked("smol", true);
  m.predicted("smol", true, milliseconds(2), milliseconds(12));
  const auto host = host_name();
  const auto text = m.text({}, none);
  for (const auto& line :
       {"Requests2XX{Level=\"Host\",Hostname=\"" + host + "\"} 1",
        "Requests4XX{Level=\"Host\",Hostname=\"" + host + "\"} 1",
        "Requests5XX{Level=\"Host\",Hostname=\"" + host + "\"} 1",
        "ts_inference_requests_total{model_name=\"smol\",model_version=\"default\",hostname=\"" +
            host + "\"} 1",
        "ts_inference_requests_total{model_name=\"smol\",model_version=\"1.0\",hostname=\"" + host +
            "\"} 2",
        "ts_inference_latency_microseconds{model_name=\"smol\",model_version=\"1.0\",hostname=\"" +
            host + "\"} 12000",
        "ts_queue_latency_microseconds{model_name=\"smol\",model_version=\"1.0\",hostname=\"" +
            host + "\"} 2000",
        "QueueTime{Level=\"Host\",Hostname=\"" + host + "\"} 2",
        "HandlerTime{ModelName=\"smol\",Level=\"Model\",Hostname=\"" + host + "\"} 10",
        std::string("# HELP MemoryUsed Torchserve prometheus gauge metric with unit: Megabytes"),
        std::string("# TYPE Requests2XX counter")}) {
    CAPTURE(line);
    CHECK(has_line(text, line));
  }
  const auto some = m.text({"QueueTime", "no_such"}, none);
  CHECK(has_line(some, "QueueTime"));
  CHECK_FALSE(has_line(some, "MemoryUsed"));
  CHECK(m.text({"no_such"}, none).empty());
}

TEST_CASE("the system's lines for processors and memory are parsed, and nothing else") {
  const auto ticks = parse_cpu_ticks("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4\n");
  REQUIRE(ticks);
  CHECK(ticks->all == 531);
  CHECK(ticks->busy == 81);
  CHECK_FALSE(parse_cpu_ticks("intr 1 2"));
  CHECK_FALSE(parse_cpu_ticks("cpu  1 2 3"));
  CHECK_FALSE(parse_cpu_ticks(""));
  const std::string_view memory = "MemTotal:  16 kB\nMemTotalX: 1 kB\nMemAvailable:    4 kB\n";
  CHECK(parse_memory_kib(memory, "MemTotal") == 16);
  CHECK(parse_memory_kib(memory, "MemAvailable") == 4);
  CHECK_FALSE(parse_memory_kib(memory, "Swap"));
  CHECK_FALSE(parse_memory_kib("MemTotal: many", "MemTotal"));
  host_reader reader;
  const auto now = reader.read();
  CHECK(now.memory_used_mib > 0);
  CHECK(now.memory_percent <= 100);
  CHECK(now.disk_percent <= 100);
}
