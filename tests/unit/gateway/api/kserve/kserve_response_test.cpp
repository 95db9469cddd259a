// Typed answers in the KServe v2 protocol: members, tensors in JSON and bytes, events; its errors.
#include "gateway/api/kserve/calls/kserve_error.hpp"
#include "gateway/api/kserve/calls/kserve_response.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstring>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

chunk response_piece(std::string text, std::uint32_t choice = 0) {
  chunk c;
  c.choice = choice;
  c.count = 1;
  c.text = std::move(text);
  c.prompt_tokens = 5;
  c.details = {{{c.text, 11, -0.5F}, {{c.text, 11, -0.5F}, {"x", 7, -2.0F}}, 2}};
  return c;
}

chunk last(std::string text, finish how = finish::stop, std::uint32_t choice = 0) {
  auto c = response_piece(std::move(text), choice);
  c.finish = how;
  return c;
}

kserve_shape kserve_shape_of(kserve_route route, std::vector<kserve_output> outputs,
                             bool is_binary = false) {
  kserve_shape s;
  s.route = route;
  s.model = "smol";
  for (const auto which : outputs) {
    s.outputs.push_back({which, is_binary});
  }
  return s;
}

http_reply reply_to(kserve_shape shape, std::vector<chunk> chunks) {
  kserve_unary whole(std::move(shape));
  for (auto& c : chunks) {
    whole.add(std::move(c));
  }
  REQUIRE(whole.is_complete());
  return whole.reply({}, {});
}

const std::vector<kserve_output> all_outputs{
    kserve_output::text_output, kserve_output::finish_reason,    kserve_output::cumulative_logprob,
    kserve_output::logprobs,    kserve_output::num_input_tokens, kserve_output::num_output_tokens};

} // namespace

TEST_CASE("generate answers with members, the prompt before the text, and the client's id") {
  auto shape = kserve_shape_of(kserve_route::generate, {kserve_output::text_output});
  shape.lead = "p ";
  shape.id = "42";
  const auto r = reply_to(shape, {response_piece("a"), last("b")});
  CHECK(r.body == R"({"id":"42","model_name":"smol","model_version":"1","text_output":"p ab"})");
  CHECK(r.content_type == "application/json");
}

TEST_CASE("all optional outputs come from the tokens") {
  auto shape = kserve_shape_of(kserve_route::generate, all_outputs);
  shape.has_logprobs = true;
  auto parsed = json::parse(reply_to(shape, {response_piece("a"), last("b", finish::length)}).body);
  CHECK(parsed["finish_reason"] == "length");
  CHECK(parsed["cumulative_logprob"] == -1.0);
  CHECK(parsed["num_input_tokens"] == 5);
  CHECK(parsed["num_output_tokens"] == 2);
  const auto logprobs = json::parse(parsed["logprobs"].get<std::string>());
  REQUIRE(logprobs.size() == 2);
  CHECK(logprobs[1]["11"] == json({{"logprob", -0.5}, {"rank", 1}, {"decoded_token", "b"}}));
  CHECK(logprobs[1]["7"]["rank"] == 2);
  shape.has_logprobs = false;
  parsed = json::parse(reply_to(shape, {last("b")}).body);
  CHECK(parsed["logprobs"] == "null");
}

TEST_CASE("infer answers with tensors, of one value for each answer") {
  auto shape = kserve_shape_of(kserve_route::infer,
                               {kserve_output::text_output, kserve_output::num_input_tokens});
  shape.choices = 2;
  const auto r = reply_to(shape, {response_piece("a"), last("x", finish::stop, 1), last("b")});
  const auto parsed = json::parse(r.body);
  CHECK(parsed["model_name"] == "smol");
  CHECK(
      parsed["outputs"][0] ==
      json(
          {{"name", "text_output"}, {"datatype", "BYTES"}, {"shape", {2}}, {"data", {"ab", "x"}}}));
  CHECK(
      parsed["outputs"][1] ==
      json({{"name", "num_input_tokens"}, {"datatype", "UINT32"}, {"shape", {1}}, {"data", {5}}}));
  CHECK(r.headers.empty());
}

TEST_CASE("tensors in bytes follow the JSON, whose length is in a header") {
  const auto r =
      reply_to(kserve_shape_of(kserve_route::infer,
                               {kserve_output::text_output, kserve_output::num_output_tokens},
                               /*is_binary=*/true),
               {last("abc")});
  CHECK(r.content_type == "application/octet-stream");
  REQUIRE(r.headers.size() == 1);
  CHECK(r.headers[0].first == "Inference-Header-Content-Length");
  const auto size = std::stoul(r.headers[0].second);
  const auto parsed = json::parse(r.body.substr(0, size));
  CHECK(parsed["outputs"][0]["parameters"]["binary_data_size"] == 7);
  CHECK_FALSE(parsed["outputs"][0].contains("data"));
  CHECK(parsed["outputs"][1]["parameters"]["binary_data_size"] == 4);
  CHECK(r.body.substr(size) == std::string("\3\0\0\0abc\1\0\0\0", 11));
}

TEST_CASE("a stream has an event for each chunk with content, and ends with the last answer") {
  auto shape = kserve_shape_of(
      kserve_route::generate_stream,
      {kserve_output::text_output, kserve_output::finish_reason, kserve_output::num_output_tokens});
  shape.is_stream = true;
  kserve_events events(shape);
  std::string out;
  events.add(response_piece("a"), out);
  CHECK(out == "data: {\"model_name\":\"smol\",\"model_version\":\"1\",\"text_output\":\"a\","
               "\"finish_reason\":\"None\",\"num_output_tokens\":1}\n\n");
  out.clear();
  events.add({}, out); // neither a token nor text
  CHECK(out.empty());
  events.add(last("b"), out);
  CHECK(out.find(R"("text_output":"b","finish_reason":"stop")") != out.npos);
  CHECK(events.has_ended());
  out.clear();
  events.add(last("c"), out);
  events.fail(fail(errc::internal, "late"), out);
  CHECK(out.empty());
}

TEST_CASE("an event of several answers has an entry for each") {
  auto shape = kserve_shape_of(kserve_route::generate_stream, {kserve_output::text_output});
  shape.is_stream = true;
  shape.choices = 2;
  kserve_events events(shape);
  std::string out;
  events.add(last("x", finish::stop, 1), out);
  CHECK(out.find(R"("text_output":["","x"])") != out.npos);
  CHECK_FALSE(events.has_ended());
  events.add(last("a"), out);
  CHECK(events.has_ended());
}

TEST_CASE("generate_stream without a stream is one event, and a failure is one") {
  auto shape = kserve_shape_of(kserve_route::generate_stream, {kserve_output::text_output});
  shape.lead = "p ";
  kserve_events events(shape);
  std::string out;
  events.add(response_piece("a"), out);
  CHECK(out.empty());
  events.add(last("b"), out);
  CHECK(out ==
        "data: {\"model_name\":\"smol\",\"model_version\":\"1\",\"text_output\":\"p ab\"}\n\n");
  kserve_events failing(shape);
  out.clear();
  failing.fail(fail(errc::internal, "broken"), out);
  CHECK(out == "data: {\"error\":\"broken\"}\n\n");
  CHECK(failing.has_ended());
}

TEST_CASE("errors are a text, with Triton's status") {
  struct row {
    errc code;
    int status;
  };
  for (const auto& r :
       {row{errc::invalid_value, 400}, row{errc::unprocessable, 400},
        row{errc::payload_too_large, 400}, row{errc::model_not_found, 404},
        row{errc::overloaded, 503}, row{errc::no_job_ticket, 503}, row{errc::queue_timeout, 503},
        row{errc::deadline_exceeded, 503}, row{errc::not_ready, 503}, row{errc::internal, 500},
        row{errc::unauthorized, 401}}) {
    CAPTURE(row_of(r.code).name);
    const auto reply = kserve_failure(fail_param(r.code, "top_p", "no"));
    CHECK(reply.status == r.status);
    CHECK(reply.body == R"({"error":"'top_p': no"})");
  }
  rejected no;
  no.reason = fail(errc::overloaded, "full");
  no.retry_after = std::chrono::milliseconds(1500);
  const auto reply = kserve_refusal(no, 429);
  CHECK(reply.status == 503);
  CHECK(reply.body == R"({"error":"full"})");
}
