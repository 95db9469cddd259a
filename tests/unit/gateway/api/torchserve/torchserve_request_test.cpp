// The bodies of TorchServe's predictions to typed requests: text, JSON, forms, instances.
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace baton;
using namespace baton::gateway;

namespace {

torchserve_generate read_prediction_body(torchserve_body body) {
  auto r = parse_prediction(body, testing::default_limits);
  REQUIRE_MESSAGE(r, body.text, ": ", r.error().message);
  return *std::move(r);
}

torchserve_generate read_json(std::string_view text) {
  return read_prediction_body({"application/json", "", text});
}

error prediction_error(torchserve_body body) {
  auto r = parse_prediction(body, testing::default_limits);
  REQUIRE_FALSE_MESSAGE(r, body.text);
  return r.error();
}

error error_of_json(std::string_view text) {
  return prediction_error({"application/json", "", text});
}

const std::string& prompt_of(const torchserve_generate& g) {
  return std::get<std::string>(g.call.request.input);
}

} // namespace

TEST_CASE("a text is the prompt, and is answered by pieces of text") {
  const auto r = read_prediction_body({"text/plain; charset=utf-8", "", "{not JSON"});
  CHECK(prompt_of(r) == "{not JSON");
  CHECK(r.speaks == torchserve_format::text);
  CHECK(r.call.shape.is_stream);
  CHECK(r.call.request.terms.stop.max_tokens == testing::default_limits.completion_tokens_default);
  CHECK(prompt_of(read_prediction_body({"", "", "Once"})) == "Once"); // curl -T
  CHECK(prompt_of(read_prediction_body({"application/octet-stream", "", "Once"})) == "Once");
  CHECK_FALSE(
      read_prediction_body({"text/plain", "", "Once", /*can_stream=*/false}).call.shape.is_stream);
}

TEST_CASE("the requests of TorchServe's examples are read") {
  struct example {
    const char* what;
    torchserve_body body;
    std::uint32_t max_tokens;
    float temperature;
  };
  const example examples[] = {
      {"examples/large_models/vllm",
       {"application/json", "", R"({"prompt":"P","max_tokens":7,"temperature":0.5})"},
       7,
       0.5F},
      {"docs/llm_deployment.md",
       {"application/json", "*/*", R"({"prompt":"P","max_new_tokens":50,"temperature":0})"},
       50,
       0},
      {"curl -d without a type",
       {"application/x-www-form-urlencoded", "*/*", R"({"prompt":"P","max_new_tokens":5})"},
       5,
       1},
      {"curl -T request.json", {"", "*/*", "\n {\"prompt\":\"P\"}"}, 16, 1},
      {"curl -d data=P", {"application/x-www-form-urlencoded", "", "x=1&data=P"}, 16, 1},
      {"a form of JSON",
       {"application/x-www-form-urlencoded", "", "data=%7B%22prompt%22%3A+%22P%22%7D"},
       16,
       1},
      {"examples/LLM/llama/chat_app",
       {"application/json", "text/plain",
        R"({"prompt":"P","params":{"max_new_tokens":48,"top_p":0.9,"temperature":0.6}})"},
       48,
       0.6F},
  };
  for (const auto& e : examples) {
    CAPTURE(e.what);
    const auto r = read_prediction_body(e.body);
    CHECK(prompt_of(r) == "P");
    CHECK(r.call.request.terms.stop.max_tokens == e.max_tokens);
    CHECK(r.call.request.terms.sampling.temperature == doctest::Approx(e.temperature));
    CHECK(r.call.shape.is_stream);
  }
}

TEST_CASE("JSON is answered by JSON and text by text, unless Accept says otherwise") {
  const auto words = [](std::string_view type, std::string_view accept, std::string_view text) {
    return read_prediction_body({type, accept, text}).speaks;
  };
  const char* object = R"({"prompt":"P"})";
  CHECK(words("application/json", "", object) == torchserve_format::json_value);
  CHECK(words("application/json", "*/*", object) == torchserve_format::json_value);
  CHECK(words("application/json", "application/json, text/plain", object) ==
        torchserve_format::json_value);
  CHECK(words("application/json", "Text/Plain", object) == torchserve_format::text);
  CHECK(words("text/plain", "", "P") == torchserve_format::text);
  CHECK(words("text/plain", "application/json", "P") == torchserve_format::json_value);
}

TEST_CASE("an answer is streamed unless the request disables it") {
  CHECK(read_json(R"({"prompt":"P","stream":null})").call.shape.is_stream);
  CHECK(read_json(R"({"prompt":"P","streaming":true})").call.shape.is_stream);
  CHECK_FALSE(read_json(R"({"prompt":"P","stream":false})").call.shape.is_stream);
  const auto nulls = read_json(
      R"({"prompt":"P","max_new_tokens":null,"max_tokens":3,"params":null,"streaming":null})");
  CHECK(nulls.call.request.terms.stop.max_tokens == 3);
  CHECK(nulls.call.shape.is_stream);
  CHECK_FALSE(read_json(R"({"prompt":"P","streaming":false})").call.shape.is_stream);
  const torchserve_body old{"application/json", "", R"({"prompt":"P","stream":true})",
                            /*can_stream=*/false};
  CHECK_FALSE(
      read_prediction_body(old).call.shape.is_stream); // HTTP/1.0 could not show a truncated stream
}

TEST_CASE("an unsupported request is refused by the client's name for the field") {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {R"({"prompt":"P","max_new_tokens":0})", "max_new_tokens"},
      {R"({"prompt":"P","max_tokens":1e308})", "max_tokens"},
      {R"({"prompt":"P","max_tokens":1,"max_new_tokens":1})", "max_new_tokens"},
      {R"({"prompt":"P","streaming":"yes"})", "streaming"},
      {R"({"prompt":"P","stream":1})", "stream"},
      {R"({"prompt":"P","temperature":-1})", "temperature"},
      {R"({"prompt":"P","n":2})", "n"},
      {R"({"prompt":"P","best_of":2,"stream":false})", "best_of"},
      {R"({"prompt":["P","Q"],"stream":false})", "prompt"},
      {R"({"prompt":"P","resumable":true})", "resumable"},
      {R"({"prompt":"P","stream_options":{"include_usage":true}})", "stream_options"},
      {R"({"prompt":"P","params":1})", "params"},
      {R"({"prompt":"P","params":{"guided_json":true}})", "params"},
      {R"({"prompt":"P","top_p":0.5,"params":{"top_p":0.5}})", "params"},
      {R"({"prompt":"P","params":{"max_new_tokens":-4}})", "max_new_tokens"},
      {R"({"prompt":"P","lora_adapter":"a"})", "lora_adapter"},
      {R"({"max_tokens":4})", "prompt"},
      {R"({"prompt":{}})", "prompt"},
  };
  for (const auto& [body, param] : wrong) {
    CAPTURE(body);
    const auto e = error_of_json(body);
    CHECK(e.param == param);
    CHECK(e.message.find(param) != std::string::npos);
  }
  CHECK(error_of_json("").code == errc::invalid_request);
  CHECK(error_of_json("[]").code == errc::invalid_request);
  CHECK(error_of_json(std::string(100'000, '[')).code == errc::invalid_request);
  CHECK(prediction_error({"", "", ""}).code == errc::invalid_request);
  CHECK(prediction_error({"", "", "{broken"}).code == errc::invalid_request);
  CHECK(prediction_error({"text/plain", "", "\xFF\xFE"}).code == errc::invalid_request);
  CHECK(prediction_error({"application/x-www-form-urlencoded", "", "data=%FF"}).code ==
        errc::invalid_request);
  CHECK(prediction_error({"application/x-www-form-urlencoded", "", "other=1"}).code ==
        errc::invalid_request);
  const torchserve_body text_alone{"application/json", "text/plain",
                                   R"({"prompt":"P","logprobs":1})"};
  CHECK(prediction_error(text_alone).param == "logprobs");
}

TEST_CASE("parts of a form are read as curl -F sends them, up to their limits") {
  const std::string type = "multipart/form-data; boundary=----b7";
  const auto part = [](const std::string& name, const std::string& value) {
    return "------b7\r\nContent-Disposition: form-data; name=\"" + name +
           "\"; filename=\"name=x\"\r\nContent-Type: text/plain\r\n\r\n" + value + "\r\n";
  };
  const std::string end = "------b7--\r\n";
  const auto body = part("other", "x") + part("body", "second") + part("data", "P\r\nQ") +
                    part("data", "late") + end;
  CHECK(prompt_of(read_prediction_body({type, "", body})) == "P\r\nQ");
  CHECK(prompt_of(read_prediction_body({type, "", part("body", R"({"prompt":"P"})") + end})) ==
        "P");
  CHECK(prompt_of(read_prediction_body({"Multipart/Form-Data; boundary=\"----b7\"", "", body})) ==
        "P\r\nQ");
  for (const auto& wrong :
       {std::string(), std::string("------b7"), part("data", "P"), part("other", "P") + end,
        "x" + part("data", "P") + end, std::string("------b7\r\n\r\n------b7--"),
        std::string("------b7\r\nContent-Disposition: name=data\r\n------b7--")}) {
    CAPTURE(wrong);
    CHECK(prediction_error({type, "", wrong}).code == errc::invalid_request);
  }
  CHECK(prediction_error({"multipart/form-data", "", body}).code == errc::invalid_request);
  CHECK(
      prediction_error({"multipart/form-data; boundary=" + std::string(80, 'a'), "", body}).code ==
      errc::invalid_request);
}

TEST_CASE("a constraint keeps its schema as the client wrote it") {
  const auto r = read_json(
      R"({"prompt":"P","max_new_tokens":4,"guided_json":{"type":"object","properties":{"b":{},"a":{}}}})");
  REQUIRE(r.call.request.terms.sampling.constraint);
  CHECK(r.call.request.terms.sampling.constraint->text.find("\"b\"") <
        r.call.request.terms.sampling.constraint->text.find("\"a\""));
}

TEST_CASE("OpenAI's bodies are as elsewhere, but streams cannot be resumed") {
  const auto chat = parse_openai_prediction(
      openai_api::chat,
      {"application/json", "", R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})"},
      testing::default_limits);
  REQUIRE(chat);
  CHECK(chat->speaks == torchserve_format::openai);
  CHECK(chat->call.shape.is_stream);
  CHECK_FALSE(parse_openai_prediction(openai_api::completions, {"", "", R"({"prompt":"P"})"},
                                      testing::default_limits)
                  ->call.shape.is_stream);
  const auto resumable = parse_openai_prediction(
      openai_api::completions, {"", "", R"({"prompt":"P","stream":true,"resumable":true})"},
      testing::default_limits);
  REQUIRE_FALSE(resumable);
  CHECK(resumable.error().param == "resumable");
}

TEST_CASE("instances are texts or objects, each a separate request") {
  const auto batch = parse_instances(
      R"({"instances":["a",{"prompt":"b","max_new_tokens":3},{"data":"c","temperature":0}]})",
      testing::default_limits);
  REQUIRE(batch);
  REQUIRE(batch->requests.size() == 3);
  CHECK(std::get<std::string>(batch->requests[0].input) == "a");
  CHECK(batch->requests[1].terms.stop.max_tokens == 3);
  CHECK(std::get<std::string>(batch->requests[2].input) == "c");
  CHECK(batch->requests[2].terms.sampling.is_greedy());
  const std::vector<std::pair<std::string, const char*>> wrong{
      {R"({})", "instances"},
      {R"({"instances":[]})", "instances"},
      {R"({"instances":"a"})", "instances"},
      {R"({"instances":[1]})", "instances"},
      {R"({"instances":[[]]})", "instances"},
      {R"({"instances":[{"prompt":"a","stream":true}]})", "stream"},
      {R"({"instances":[{"prompt":"a","logprobs":1}]})", "logprobs"},
      {R"({"instances":[{"prompt":"a","echo":true}]})", "echo"},
      {R"({"instances":[{"prompt":"a","guided_json":{"type":"object"}}]})", ""},
      {R"({"instances":["a"],"signature_name":"x"})", "signature_name"},
  };
  for (const auto& [body, param] : wrong) {
    CAPTURE(body);
    const auto r = parse_instances(body, testing::default_limits);
    REQUIRE_FALSE(r);
    CHECK(r.error().param == param);
  }
  std::string many = R"({"instances":["a")";
  for (std::uint32_t i = 0; i < testing::default_limits.choices_max; ++i) {
    many += R"(,"a")";
  }
  CHECK_FALSE(parse_instances(many + "]}", testing::default_limits));
}
