// vLLM's /generate: its bodies, their fields, and its answers.
#include "gateway/api/vllm/vllm_generate.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

vllm_generate vllm_call_of(const std::string& fields) {
  const auto r =
      parse_vllm_generate(R"({"prompt":"say \"hi\"")" + fields + "}", testing::default_limits);
  REQUIRE(r);
  REQUIRE_MESSAGE(*r, fields);
  return **r;
}

error vllm_error(const std::string& body) {
  const auto r = parse_vllm_generate(body, testing::default_limits);
  REQUIRE_MESSAGE(r, body);
  REQUIRE_FALSE_MESSAGE(*r, body);
  return r->error();
}

chunk vllm_chunk(std::uint32_t choice, std::string text, finish how = finish::none) {
  chunk c;
  c.choice = choice;
  c.text = std::move(text);
  c.finish = how;
  return c;
}

} // namespace

TEST_CASE("a body with a prompt is vLLM's, every other one is not") {
  for (const auto* other : {R"({"inputs":"x"})", "{}", "", "[]", R"({"inputs":"\"prompt\""})",
                            R"({"inputs":"x","parameters":{"prompt":1}})", R"({"prompt":)"}) {
    CAPTURE(other);
    CHECK_FALSE(parse_vllm_generate(other, testing::default_limits));
  }
  const auto call = vllm_call_of(R"(,"n":2,"temperature":0.5,"top_k":-1,"stream":true,"seed":3)");
  CHECK(call.prompt == "say \"hi\"");
  CHECK(std::get<std::string>(call.request.input) == call.prompt);
  CHECK(call.request.terms.choices == 2);
  CHECK(call.request.terms.sampling.temperature == 0.5F);
  CHECK(call.request.terms.stop.max_tokens == 16); // vLLM's as well
  CHECK(call.is_stream);
  CHECK_FALSE(vllm_call_of("").is_stream);
}

TEST_CASE("fields without a place in the answer are refused by name, unless neutral") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"prompt":["a","b"]})", "prompt"},
      {R"({"prompt":[1,2]})", "prompt"},
      {R"({"prompt":null})", "prompt"},
      {R"({"prompt":"a","inputs":"b"})", "inputs"},
      {R"({"prompt":"a","echo":true})", "echo"},
      {R"({"prompt":"a","logprobs":1})", "logprobs"},
      {R"({"prompt":"a","best_of":2})", "best_of"},
      {R"({"prompt":"a","stream":true,"resumable":true})", "resumable"},
      {R"({"prompt":"a","use_beam_search":true})", "use_beam_search"},
      {R"({"prompt":"a","temperature":-1})", "temperature"},
  };
  for (const auto& [body, param] : rows) {
    CAPTURE(body);
    CHECK(vllm_error(body).param == param);
  }
  vllm_call_of(R"(,"echo":false,"best_of":1,"use_beam_search":false,"logprobs":null)");
}

TEST_CASE("the answer is the prompt and its continuation, for each choice") {
  const auto call = vllm_call_of(R"(,"n":2)");
  vllm_unary whole(call);
  whole.add(vllm_chunk(1, " b"));
  whole.add(vllm_chunk(0, " a", finish::stop));
  CHECK_FALSE(whole.is_complete());
  whole.add(vllm_chunk(1, "c", finish::length));
  REQUIRE(whole.is_complete());
  CHECK(json::parse(whole.reply({}, {}).body) == json{{"text", {"say \"hi\" a", "say \"hi\" bc"}}});
}

TEST_CASE("each line has all of the text, and replaces one that is not sent yet") {
  vllm_lines lines(vllm_call_of(""));
  std::string out;
  lines.add(vllm_chunk(0, ""), out);
  CHECK(out.empty());
  lines.add(vllm_chunk(0, " a"), out);
  lines.add(vllm_chunk(0, " b"), out);
  CHECK(out == "{\"text\":[\"say \\\"hi\\\" a b\"]}\n");
  out.clear(); // sent
  lines.add(vllm_chunk(0, " c"), out);
  CHECK(json::parse(out)["text"][0] == "say \"hi\" a b c");
  out.clear();
  lines.add(vllm_chunk(0, "", finish::stop), out);
  CHECK(lines.has_ended());
  CHECK(json::parse(out)["text"][0] == "say \"hi\" a b c");
  out.clear();
  lines.add(vllm_chunk(0, "late"), out);
  lines.fail(fail(errc::internal, "late"), out);
  CHECK(out.empty());
}

TEST_CASE("an error is the last line") {
  vllm_lines lines(vllm_call_of(""));
  std::string out;
  lines.add(vllm_chunk(0, "a"), out);
  lines.fail(fail(errc::pipeline_lost, "gone"), out);
  CHECK(lines.has_ended());
  const auto last = out.substr(out.find('\n') + 1);
  CHECK(json::parse(last)["error"]["code"] == "pipeline_lost");
}
