#include "gateway/api/kserve/calls/kserve_infer.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/request/field_names.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace baton;
using namespace baton::gateway;

namespace {

// The refusal of a model's head for a value out of range.
error too_long() {
  return fail_param(errc::context_length_exceeded, "max_tokens",
                    "the context holds 8 tokens, 'max_tokens' asks for {}", 9);
}

openai_generate asked_of(openai_api api, std::string_view body) {
  auto call = parse_generation(api, body, testing::default_config.request);
  REQUIRE_MESSAGE(call, call.error().message);
  return *std::move(call);
}

kserve_generate triton_with(const std::string& parameters) {
  infer given;
  given.parameters = parameters;
  tensor text;
  text.name = "text_input";
  text.datatype = "BYTES";
  text.shape = {1};
  text.data = std::string("\1\0\0\0P", 5);
  given.inputs.push_back(std::move(text));
  auto read = read_language_infer(given, "m", testing::default_config);
  REQUIRE_MESSAGE(read, read.error().message);
  return *std::move(read);
}

error triton_error(const std::string& parameters) {
  infer given;
  given.parameters = parameters;
  tensor text;
  text.name = "text_input";
  text.datatype = "BYTES";
  text.shape = {1};
  text.data = std::string("\1\0\0\0P", 5);
  given.inputs.push_back(std::move(text));
  const auto read = read_language_infer(given, "m", testing::default_config);
  REQUIRE_FALSE(read);
  return read.error();
}

} // namespace

TEST_CASE("an error uses the client's name of a field, in its parameter and where it is quoted") {
  const field_names words{{"max_tokens", "max_new_tokens"}, {"messages", "input"}};
  const auto e = in_client_terms(words, too_long());
  CHECK(e.param == "max_new_tokens");
  CHECK(e.message == "the context holds 8 tokens, 'max_new_tokens' asks for 9");
  CHECK(e.code == errc::context_length_exceeded);
  CHECK(in_client_terms(words, fail_param(errc::invalid_value, "messages[2].role", "x")).param ==
        "input[2].role");
  CHECK(in_client_terms(words, fail_param(errc::invalid_value, "messages_of", "x")).param ==
        "messages_of");
  // Both fields of a comparison.
  CHECK(in_client_terms(words, fail_param(errc::invalid_value, "min_tokens",
                                          "'min_tokens' is 5, more than the 3 of 'max_tokens'"))
            .message == "'min_tokens' is 5, more than the 3 of 'max_new_tokens'");
  CHECK(in_client_terms({}, too_long()).param == "max_tokens");
}

TEST_CASE("swapped names are each changed once") {
  const field_names words{{"a", "b"}, {"b", "a"}};
  const auto e =
      in_client_terms(words, fail_param(errc::invalid_value, "a", "'a', 'b' and 'ab' '"));
  CHECK(e.param == "b");
  CHECK(e.message == "'b', 'a' and 'ab' '");
}

TEST_CASE("each API names the fields that a model's head may refuse") {
  const auto param_in = [](const field_names& words, const char* param) {
    return in_client_terms(words, fail_param(errc::invalid_value, param, "x")).param;
  };
  CHECK(param_in(tgi_field_names(), "max_tokens") == "parameters.max_new_tokens");
  CHECK(param_in(tgi_field_names(), "prompt") == "inputs");
  CHECK(param_in(response_field_names(), "max_tokens") == "max_output_tokens");
  CHECK(param_in(response_field_names(), "prompt") == "input");

  const auto chat =
      asked_of(openai_api::chat,
               R"({"messages":[{"role":"user","content":"a"}],"max_completion_tokens":5})");
  CHECK(param_in(chat.client_names, "max_tokens") == "max_completion_tokens");
  CHECK(param_in(chat.client_names, "prompt") == "messages");
  const auto older = asked_of(openai_api::completions, R"({"prompt":"a","max_tokens":5})");
  CHECK(param_in(older.client_names, "max_tokens") == "max_tokens");
  CHECK(param_in(older.client_names, "prompt") == "prompt");

  const auto triton = triton_with(
      R"({"min_length":2,"max_tokens":4,"stop_words":["x"],"random_seed":1,"end_id":7})");
  CHECK(param_in(triton.client_names, "min_tokens") == "min_length");
  CHECK(param_in(triton.client_names, "max_tokens") == "max_tokens");
  CHECK(param_in(triton.client_names, "stop") == "stop_words");
  CHECK(param_in(triton.client_names, "seed") == "random_seed");
  CHECK(param_in(triton.client_names, "stop_token_ids") == "end_id");
  CHECK(param_in(triton.client_names, "prompt") == "text_input");

  const auto handler =
      parse_prediction({"application/json", "", R"({"prompt":"a","max_new_tokens":5})", true},
                       testing::default_config.request);
  REQUIRE(handler);
  CHECK(param_in(handler->call.client_names, "max_tokens") == "max_new_tokens");
  const auto plain =
      parse_prediction({"text/plain", "", "a", true}, testing::default_config.request);
  REQUIRE(plain);
  CHECK(param_in(plain->call.client_names, "prompt") == "data");
  const auto batch = parse_instances(R"({"instances":["a",{"data":"b","max_new_tokens":5}]})",
                                     testing::default_config.request);
  REQUIRE(batch);
  REQUIRE(batch->client_names.size() == 2);
  CHECK(param_in(batch->client_names[0], "prompt") == "prompt");
  CHECK(param_in(batch->client_names[1], "prompt") == "data");
  CHECK(param_in(batch->client_names[1], "max_tokens") == "max_new_tokens");

  const auto vllm = parse_vllm_generate(R"({"prompt":"a","max_completion_tokens":5})",
                                        testing::default_config.request);
  REQUIRE(vllm);
  REQUIRE(*vllm);
  CHECK(param_in((*vllm)->client_names, "max_tokens") == "max_completion_tokens");
}

TEST_CASE("a refusal by an API server uses the client's name") {
  struct row {
    const char *parameters, *param;
  };
  for (const auto& [parameters, param] :
       {row{R"({"min_length":-1})", "min_length"},
        {R"({"num_return_sequences":1000})", "num_return_sequences"},
        {R"({"random_seed":1e300})", "random_seed"},
        {R"({"stop_words":[1]})", "stop_words"},
        {R"({"end_id":-7})", "end_id"},
        {R"({"max_tokens":0})", "max_tokens"},
        {R"({"min_length":5,"max_tokens":2})", "min_length"},
        {R"({"n":1,"num_return_sequences":2})", "num_return_sequences"}}) {
    CAPTURE(parameters);
    const auto e = triton_error(parameters);
    CAPTURE(e.message);
    CHECK(e.param == param);
    CHECK(e.message.find(param) != e.message.npos);
  }
}
