// -1, 0 and null where another server gives them a special meaning, for each API as its server
// reads them. vLLM: SamplingParams and OpenAI's protocol; llama.cpp: max_tokens; TGI:
// router/src/validation.rs; TensorRT-LLM and vLLM behind Triton.
#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/request/request_check.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton;
using namespace baton::gateway;

namespace {

result<generate> sentinel_request(const std::string& api, const std::string& fields) {
  const auto behind = fields.empty() ? "}" : "," + fields + "}";
  const auto of = [](auto call) -> result<generate> {
    return call ? result<generate>(std::move(call->request)) : call.error();
  };
  if (api == "chat") {
    return of(parse_generation(openai_api::chat,
                               R"({"messages":[{"role":"user","content":"x"}])" + behind,
                               testing::default_config.request));
  }
  if (api == "completions") {
    return of(parse_generation(openai_api::completions, R"({"prompt":"x")" + behind,
                               testing::default_config.request));
  }
  if (api == "responses") {
    auto call = parse_response(R"({"input":"x")" + behind, testing::default_config);
    return call ? result<generate>(std::move(call->call.request)) : call.error();
  }
  if (api == "tgi") {
    return of(parse_tgi(tgi_route::generate,
                        R"({"inputs":"x","parameters":{"do_sample":true)" + behind + "}",
                        testing::default_config));
  }
  if (api == "vllm") {
    return of(*parse_vllm_generate(R"({"prompt":"x")" + behind, testing::default_config.request));
  }
  if (api == "torchserve") {
    auto call = parse_prediction({"application/json", "", R"({"prompt":"x")" + behind},
                                 testing::default_config.request);
    return call ? result<generate>(std::move(call->call.request)) : call.error();
  }
  REQUIRE(api == "triton");
  auto call = parse_generate(R"({"text_input":"x")" + behind, testing::default_config.request);
  if (!call) {
    return call.error();
  }
  return of(read_kserve(kserve_route::generate, *std::move(call), "m", testing::default_config));
}

using check = std::function<bool(const generate&)>;

struct sentinel_row {
  std::vector<const char*> apis;
  const char* fields;
  check holds; // null: it is refused
};

const std::vector<const char*> vllms{"chat", "completions", "vllm", "torchserve", "triton"};
const std::vector<const char*> openais{"chat", "completions"};
const std::vector<const char*> others{"vllm", "torchserve", "triton"};
const std::vector<const char*> all{"chat",   "completions", "vllm",     "torchserve",
                                   "triton", "tgi",         "responses"};

bool top_k_is_off(const generate& g) {
  return g.terms.sampling.top_k == 0;
}
bool has_no_limit(const generate& g) {
  return !g.terms.max_tokens_given;
}

} // namespace

TEST_CASE("a sentinel has the meaning of the server whose API is used") {
  const sentinel_row rows[] = {
      {vllms, R"("top_k":-1)", top_k_is_off},
      {vllms, R"("top_k":0)", top_k_is_off},
      {vllms, R"("top_k":null)", top_k_is_off},
      {vllms, R"("top_k":-2)", nullptr},
      {{"tgi"}, R"("top_k":null)", top_k_is_off},
      {{"tgi"}, R"("top_k":0)", nullptr},
      {{"tgi"}, R"("top_k":-1)", nullptr},
      // A disabled option is left out; a probability of 0 would leave no token.
      {vllms, R"("top_p":0)", nullptr},
      {all, R"("top_p":null)", [](const generate& g) { return g.terms.sampling.top_p == 1; }},
      {all, R"("temperature":null)",
       [](const generate& g) { return g.terms.sampling.temperature == 1; }},
      {vllms, R"("temperature":-1)", nullptr},
      // A limit of -1 is none to llama.cpp, and an error to vLLM and TGI.
      {openais, R"("max_tokens":-1)", has_no_limit},
      {openais, R"("max_completion_tokens":-1)", has_no_limit},
      {openais, R"("max_tokens":5,"max_completion_tokens":-1)", has_no_limit},
      {openais, R"("max_tokens":0)", nullptr},
      {openais, R"("max_tokens":-2)", nullptr},
      {openais, R"("n_predict":-1)", nullptr}, // another API's field
      {openais, R"("n_predict":null)", [](const generate&) { return true; }},
      {{"chat"}, R"("max_tokens":null)", has_no_limit},
      {{"completions", "vllm", "torchserve", "triton"},
       R"("max_tokens":null)",
       [](const generate& g) { return g.terms.stop.max_tokens == 16 && g.terms.max_tokens_given; }},
      {others, R"("max_tokens":-1)", nullptr},
      {others, R"("max_tokens":0)", nullptr},
      {{"torchserve"}, R"("max_new_tokens":-1)", nullptr},
      {{"tgi"}, R"("max_new_tokens":null)", has_no_limit},
      {{"tgi"}, R"("max_new_tokens":0)", nullptr},
      {{"tgi"}, R"("max_new_tokens":-1)", nullptr},
      {{"responses"}, R"("max_output_tokens":null)", has_no_limit},
      {{"responses"}, R"("max_output_tokens":-1)", nullptr},
      {vllms, R"("min_tokens":0)", [](const generate& g) { return g.terms.stop.min_tokens == 0; }},
      {vllms, R"("min_tokens":-1)", nullptr},
      // vLLM's -1: as many as the model accepts.
      {vllms, R"("truncate_prompt_tokens":-1)",
       [](const generate& g) { return g.prompt_tokens_max == prompt_tokens_of_context; }},
      {vllms, R"("truncate_prompt_tokens":null)",
       [](const generate& g) { return g.prompt_tokens_max == 0; }},
      {vllms, R"("truncate_prompt_tokens":0)", nullptr},
      {vllms, R"("truncate_prompt_tokens":-2)", nullptr},
      {{"tgi"}, R"("truncate":null)", [](const generate& g) { return g.prompt_tokens_max == 0; }},
      {{"tgi"}, R"("truncate":0)", nullptr},
      {{"tgi"}, R"("truncate":-1)", nullptr},
      // 0 is the drawn token's alone, -1 the whole vocabulary's, which is beyond the limit.
      {{"completions", "torchserve", "triton"},
       R"("logprobs":0)",
       [](const generate& g) { return g.terms.sampling.logprobs == 0; }},
      {{"completions", "torchserve", "triton"},
       R"("logprobs":null)",
       [](const generate& g) { return g.terms.sampling.logprobs == -1; }},
      {{"completions", "torchserve", "triton"}, R"("logprobs":-1)", nullptr},
      {{"chat"},
       R"("logprobs":true,"top_logprobs":0)",
       [](const generate& g) { return g.terms.sampling.logprobs == 0; }},
      {{"chat"},
       R"("logprobs":null,"top_logprobs":null)",
       [](const generate& g) { return g.terms.sampling.logprobs == -1; }},
      {{"chat"}, R"("logprobs":true,"top_logprobs":-1)", nullptr},
      {{"tgi"},
       R"("top_n_tokens":0)",
       [](const generate& g) { return g.terms.sampling.logprobs == -1; }},
      {{"tgi"}, R"("top_n_tokens":-1)", nullptr},
      {{"chat", "completions", "vllm"},
       R"("n":null)",
       [](const generate& g) { return g.terms.choices == 1; }},
      {vllms, R"("n":0)", nullptr},
      {vllms, R"("n":-1)", nullptr},
      {{"tgi"}, R"("best_of":0)", nullptr},
      {{"tgi"}, R"("best_of":null)", [](const generate& g) { return g.terms.choices == 1; }},
      {all, R"("seed":0)", [](const generate& g) { return g.terms.sampling.seed == 0; }},
      {{"tgi"}, R"("seed":-1)", nullptr}, // it is unsigned there
      {{"triton"}, R"("pad_id":-1)", [](const generate&) { return true; }},
      {{"triton"}, R"("end_id":-1)", nullptr}, // named as a completion has it: stop_token_ids
  };
  for (const auto& r : rows) {
    for (const std::string api : r.apis) {
      CAPTURE(api);
      CAPTURE(r.fields);
      const auto read = sentinel_request(api, r.fields);
      REQUIRE_MESSAGE(static_cast<bool>(read) == static_cast<bool>(r.holds),
                      (read ? "it is taken" : read.error().message));
      if (r.holds) {
        CHECK(r.holds(*read));
      } else {
        const auto name = std::string(r.fields).substr(1, std::string(r.fields).find('"', 1) - 1);
        const auto& e = read.error();
        const bool is_named = e.param.ends_with(name == "end_id" ? "stop_token_ids" : name) ||
                              e.message.find(name) != e.message.npos ||
                              std::string(r.fields).find(e.param) != std::string::npos;
        CHECK_MESSAGE(is_named, (e.param + ": " + e.message));
      }
    }
  }
}

TEST_CASE("a seed of -1 or null is drawn at random, any other negative one is used") {
  for (const std::string api :
       {"chat", "completions", "vllm", "torchserve", "triton", "responses"}) {
    CAPTURE(api);
    for (const auto* fields : {"", R"("seed":-1)", R"("seed":null)"}) {
      CAPTURE(fields);
      const auto one = sentinel_request(api, fields), other = sentinel_request(api, fields);
      REQUIRE_MESSAGE(one, one.error().message);
      REQUIRE(other);
      CHECK(one->terms.sampling.seed != other->terms.sampling.seed);
      CHECK(one->terms.sampling.seed != ~std::uint64_t{0});
    }
    const auto negative = sentinel_request(api, R"("seed":-2)");
    REQUIRE(negative);
    CHECK(negative->terms.sampling.seed == ~std::uint64_t{1});
  }
  // A request with a name is repeated with the same seed.
  const auto named = sentinel_request("chat", R"("request_id":"a","seed":-1)");
  REQUIRE(named);
  CHECK(named->terms.sampling.seed ==
        sentinel_request("chat", R"("request_id":"a")")->terms.sampling.seed);
}

TEST_CASE("a prompt truncated to the model's context leaves room for its answer") {
  generate g;
  g.terms.max_tokens_given = true;
  g.terms.stop.max_tokens = 16;
  g.prompt_tokens_max = 7;
  CHECK(prompt_tokens_within(g, 100) == 7);
  g.prompt_tokens_max = prompt_tokens_of_context;
  CHECK(prompt_tokens_within(g, 100) == 84);
  CHECK(prompt_tokens_within(g, 16) == 1);
  CHECK(prompt_tokens_within(g, 1) == 1);
  CHECK(prompt_tokens_within(g, 0) == 0); // unknown: nothing is truncated
  g.terms.max_tokens_given = false;
  CHECK(prompt_tokens_within(g, 100) == 99);
}
