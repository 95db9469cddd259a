// Fields that each API's reader finds unset, and their values from the model's defaults.
#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/request/model_defaults.hpp"
#include "tests/support/drawn_defaults.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using testing::drawn;
using namespace baton::gateway;
using enum sampling_field;

namespace {

const sampling_defaults defaults = drawn(0.25F, 20, 0.5F, 0.125F, 1.5F, 100);

generate openai(openai_api api, const std::string& fields) {
  const auto* head = api == openai_api::chat ? R"({"messages":[{"role":"user","content":"x"}])"
                                             : R"({"prompt":"x")";
  const auto r = parse_generation(api, head + fields + "}", testing::default_config.request);
  REQUIRE_MESSAGE(r, fields);
  return r->request;
}

generate tgi(const std::string& body) {
  const auto r = parse_tgi(tgi_route::generate, body, testing::default_config);
  REQUIRE_MESSAGE(r, body);
  return r->request;
}

generate with_defaults(generate request, const sampling_defaults& of = defaults) {
  REQUIRE(take_defaults(of, request));
  return request;
}

} // namespace

TEST_CASE("a client's value wins, a missing one is the model's") {
  for (const auto api : {openai_api::chat, openai_api::completions}) {
    const auto none = openai(api, "");
    CHECK(none.unspecified == all_sampling_fields);
    const auto taken = with_defaults(none);
    CHECK(taken.terms.sampling.temperature == 0.25F);
    CHECK(taken.terms.sampling.top_k == 20);
    CHECK(taken.terms.sampling.top_p == 0.5F);
    CHECK(taken.terms.sampling.min_p == 0.125F);
    CHECK(taken.terms.sampling.repetition_penalty == 1.5F);
    CHECK(taken.terms.stop.max_tokens == 100);
    CHECK(has_default_max_tokens(taken));
    const auto given =
        openai(api, R"(,"temperature":1,"top_k":0,"top_p":1,"min_p":0,"repetition_penalty":1,)"
                    R"("max_tokens":7)");
    CHECK(given.unspecified == 0);
    const auto kept = with_defaults(given);
    CHECK(kept.terms.sampling == given.terms.sampling);
    CHECK(kept.terms.stop.max_tokens == 7);
    CHECK(kept.terms.max_tokens_given);
    CHECK_FALSE(has_default_max_tokens(kept));
    // A null is a missing value.
    CHECK(with_defaults(openai(api, R"(,"temperature":null)")).terms.sampling.temperature == 0.25F);
  }
}

TEST_CASE("without any value, each API has its own defaults") {
  const auto chat = with_defaults(openai(openai_api::chat, ""), {});
  CHECK(chat.terms.sampling.temperature == 1);
  CHECK_FALSE(chat.terms.max_tokens_given);
  CHECK_FALSE(has_default_max_tokens(chat));
  const auto completion = with_defaults(openai(openai_api::completions, ""), {});
  CHECK(completion.terms.stop.max_tokens == 16);
  CHECK(completion.terms.max_tokens_given);
  CHECK(completion.unspecified == 0);
  CHECK(with_defaults(tgi(R"({"inputs":"x","parameters":{}})"), {}).terms.sampling.is_greedy());
}

TEST_CASE("a tiny default is normalised as a client's value is") {
  const auto taken = with_defaults(openai(openai_api::chat, ""), drawn(1e-40F, {}, {}, 1e-40F));
  CHECK(taken.terms.sampling.is_greedy());
  CHECK(taken.terms.sampling.min_p == 0);
}

TEST_CASE("min_tokens is checked against the effective max_tokens") {
  auto wrong = openai(openai_api::completions, R"(,"min_tokens":20)");
  const auto refused = take_defaults({}, wrong); // 16, OpenAI's
  REQUIRE_FALSE(refused);
  CHECK(refused.error().param == "min_tokens");
  CHECK(
      with_defaults(openai(openai_api::completions, R"(,"min_tokens":20)")).terms.stop.max_tokens ==
      100);
  CHECK(with_defaults(openai(openai_api::chat, R"(,"min_tokens":200)")).terms.stop.max_tokens ==
        200);
  CHECK_FALSE(parse_generation(openai_api::completions,
                               R"({"prompt":"x","min_tokens":9,"max_tokens":8})",
                               testing::default_config.request));
}

TEST_CASE("each of several prompts is drawn with the same values") {
  const auto r = parse_generation(openai_api::completions, R"({"prompt":["a","b"]})",
                                  testing::default_config.request);
  REQUIRE(r);
  REQUIRE(r->further.size() == 1);
  CHECK(r->further[0].unspecified == all_sampling_fields);
}

TEST_CASE("TGI's requests use the model's defaults once they are sampled") {
  const auto bare = with_defaults(tgi(R"({"inputs":"x"})"));
  CHECK(bare.terms.sampling.temperature == 0.25F);
  CHECK(bare.terms.stop.max_tokens == 100);
  const auto greedy = with_defaults(tgi(R"({"inputs":"x","parameters":{"max_new_tokens":5}})"));
  CHECK(greedy.terms.sampling.is_greedy());
  CHECK(greedy.terms.sampling.repetition_penalty == 1.5F);
  CHECK(greedy.terms.stop.max_tokens == 5);
  const auto warm =
      with_defaults(tgi(R"({"inputs":"x","parameters":{"do_sample":true,"top_p":0.75}})"));
  CHECK(warm.terms.sampling.temperature == 0.25F);
  CHECK(warm.terms.sampling.top_p == 0.75F);
  CHECK(warm.terms.sampling.top_k == 20);
  const auto hot = with_defaults(tgi(R"({"inputs":"x","parameters":{"temperature":1.5}})"));
  CHECK(hot.terms.sampling.temperature == 1.5F);
}

TEST_CASE("the APIs of Triton and vLLM find the same fields unset") {
  auto call = parse_generate(R"({"text_input":"x","parameters":{"temperature":0.5}})",
                             testing::default_config.request);
  REQUIRE(call);
  const auto triton =
      read_kserve(kserve_route::generate, *std::move(call), "m", testing::default_config);
  REQUIRE(triton);
  CHECK(triton->request.unspecified == (all_sampling_fields & ~bit_of(temperature)));
  const auto vllm =
      parse_vllm_generate(R"({"prompt":"x","top_k":5})", testing::default_config.request);
  REQUIRE(vllm);
  REQUIRE(*vllm);
  CHECK((*vllm)->request.unspecified == (all_sampling_fields & ~bit_of(top_k)));
}

TEST_CASE("a response repeats the effective values") {
  const auto r = parse_response(R"({"input":"hi","top_p":0.75})", testing::default_config);
  REQUIRE(r);
  auto settled_request = *r;
  add_model_defaults(drawn(0.2F, {}, 0.5F), settled_request);
  const auto asked = nlohmann::json::parse(settled_request.shape.asked);
  CHECK(asked["temperature"].dump() == "0.2");
  CHECK(asked["top_p"] == 0.75);
  CHECK(asked["tool_choice"] == "auto");
  const auto taken = with_defaults(settled_request.call.request);
  CHECK(taken.terms.sampling.temperature == 0.25F);
  CHECK(taken.terms.sampling.top_p == 0.75F);
  CHECK(taken.terms.sampling.min_p == 0.125F);
  CHECK(taken.terms.stop.max_tokens == 100);
}

TEST_CASE("nodes.toml takes precedence over the model's files") {
  const sampling_defaults first = drawn(0.5F);
  const auto all = merged(first, defaults);
  CHECK(all.temperature == 0.5F);
  CHECK(all.top_k == 20);
  CHECK(merged({}, {}) == sampling_defaults());
}
