// Numbers at the limits of floats and integers, in every numeric field of every API. Each is
// refused by the name of its field, or reaches the sampler as a number in its range.
#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/api/vllm/vllm_generate.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/websocket/websocket_messages.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace baton;
using namespace baton::gateway;

namespace {

constexpr const char* values[] = {"0",
                                  "-0",
                                  "0.0",
                                  "-0.0",
                                  "1e-44",
                                  "-1e-44",
                                  "1e-45",
                                  "1e-46",
                                  "1e-300",
                                  "-1e-300",
                                  "5e-324",
                                  "4.9e-324",
                                  "1e-37",
                                  "1e-38",
                                  "1e-39",
                                  "1e-7",
                                  "9e-6",
                                  "3.4e38",
                                  "3.5e38",
                                  "-3.5e38",
                                  "1e39",
                                  "1e308",
                                  "-1e308",
                                  "1.7976931348623157e308",
                                  "2",
                                  "100",
                                  "100.00001",
                                  "1",
                                  "0.99999999999999999",
                                  "1.0000000000000002",
                                  "2147483647",
                                  "2147483648",
                                  "-2147483648",
                                  "-2147483649",
                                  "4294967295",
                                  "4294967296",
                                  "9223372036854775807",
                                  "9223372036854775808",
                                  "-9223372036854775808",
                                  "-9223372036854775809",
                                  "18446744073709551615",
                                  "18446744073709551616",
                                  "1e2",
                                  "1E+2"};

struct number_api {
  const char* name;
  std::vector<const char*> fields;
  std::function<result<generate>(const std::string& number_member)> read;
};

template <class Call>
result<generate> number_request(Call call) {
  if (!call) {
    return call.error();
  }
  if constexpr (requires { call->call.request; }) {
    return std::move(call->call.request);
  } else {
    return std::move(call->request);
  }
}

const std::vector<const char*> sampling{"temperature",
                                        "top_p",
                                        "min_p",
                                        "typical_p",
                                        "repetition_penalty",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "top_k",
                                        "seed",
                                        "max_tokens",
                                        "min_tokens",
                                        "n",
                                        "logprobs",
                                        "num_speculative_tokens",
                                        "truncate_prompt_tokens",
                                        "stop_token_ids",
                                        "logit_bias"};

std::vector<const char*> and_more(std::vector<const char*> all, std::vector<const char*> more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const std::vector<number_api>& number_apis() {
  static const std::vector<number_api> all{
      {"chat", and_more(sampling, {"max_completion_tokens", "top_logprobs", "priority"}),
       [](const std::string& m) {
         return number_request(parse_generation(
             openai_api::chat, R"({"messages":[{"role":"user","content":"x"}],)" + m + "}",
             testing::default_config.request));
       }},
      {"completions", and_more(sampling, {"max_completion_tokens", "best_of", "priority"}),
       [](const std::string& m) {
         return number_request(parse_generation(openai_api::completions,
                                                R"({"prompt":"x",)" + m + "}",
                                                testing::default_config.request));
       }},
      {"responses",
       {"temperature", "top_p", "seed", "max_output_tokens", "priority"},
       [](const std::string& m) {
         return number_request(
             parse_response(R"({"input":"x",)" + m + "}", testing::default_config));
       }},
      {"tgi",
       {"temperature", "top_p", "typical_p", "repetition_penalty", "frequency_penalty", "top_k",
        "seed", "max_new_tokens", "truncate", "best_of", "top_n_tokens"},
       [](const std::string& m) {
         return number_request(parse_tgi(
             tgi_route::generate, R"({"inputs":"x","parameters":{"do_sample":true,)" + m + "}}",
             testing::default_config));
       }},
      {"vllm", sampling,
       [](const std::string& m) {
         return number_request(
             *parse_vllm_generate(R"({"prompt":"x",)" + m + "}", testing::default_config.request));
       }},
      {"torchserve", and_more(sampling, {"max_new_tokens"}),
       [](const std::string& m) {
         return number_request(
             parse_prediction({"application/json", "", R"({"prompt":"x",)" + m + "}"},
                              testing::default_config.request));
       }},
      {"triton",
       and_more(sampling, {"min_length", "random_seed", "num_return_sequences", "timeout"}),
       [](const std::string& m) -> result<generate> {
         auto call =
             parse_generate(R"({"text_input":"x",)" + m + "}", testing::default_config.request);
         if (!call) {
           return call.error();
         }
         return number_request(
             read_kserve(kserve_route::generate, *std::move(call), "m", testing::default_config));
       }},
      {"websocket", and_more(sampling, {"window"}),
       [](const std::string& m) -> result<generate> {
         auto given = parse_socket_message(R"({"type":"start","id":"a","prompt":"x",)" + m + "}",
                                           testing::default_config);
         if (const auto* no = std::get_if<socket_mistake>(&given)) {
           return no->reason;
         }
         return std::get<socket_start>(std::get<socket_message>(std::move(given))).call.request;
       }},
  };
  return all;
}

// As the sampler requires (check_draw), with no overflow to infinity on the way.
void check_sampling(const sampling_params& s) {
  for (const float number : {s.temperature, s.top_p, s.min_p, s.typical_p, s.repetition_penalty,
                             s.presence_penalty, s.frequency_penalty}) {
    CHECK((number == 0 || std::isnormal(number)));
  }
  constexpr float logit_max = 65504.0F; // of half precision
  CHECK((s.temperature == 0 || std::isfinite(logit_max / s.temperature)));
  CHECK_FALSE(std::signbit(s.temperature));
  CHECK(s.top_p > 0);
  CHECK(s.top_p <= 1);
  CHECK(s.typical_p > 0);
  CHECK(s.typical_p <= 1);
  CHECK_FALSE(std::signbit(s.min_p));
  CHECK(s.min_p <= 1);
  CHECK(std::isfinite(logit_max / s.repetition_penalty));
  CHECK(std::isfinite(logit_max * s.repetition_penalty));
  for (const auto& b : s.biases) {
    CHECK(std::isfinite(b.bias));
  }
}

std::string number_member(std::string_view field, std::string_view value) {
  const auto form = field == "stop_token_ids" ? R"("{}":[{}])"
                    : field == "logit_bias"   ? R"("{}":{{"5":{}}})"
                                              : R"("{}":{})";
  return fmt::format(fmt::runtime(form), field, value);
}

} // namespace

TEST_CASE("a number at the limit of its type is refused by its field's name, or used in sampling") {
  std::size_t taken = 0;
  for (const auto& d : number_apis()) {
    CAPTURE(d.name);
    for (const std::string field : d.fields) {
      CAPTURE(field);
      for (const auto* value : values) {
        CAPTURE(value);
        auto read = d.read(number_member(field, value));
        if (!read) {
          const auto& e = read.error();
          CHECK(row_of(e.code).http_status == 400);
          const bool is_named = e.param.find(field) != e.param.npos ||
                                e.message.find(field) != e.message.npos ||
                                // fields with another name in a completion
                                (d.name == std::string("triton") && !e.param.empty());
          CHECK_MESSAGE(is_named, (e.param + ": " + e.message));
          continue;
        }
        ++taken;
        normalize_numbers(read->terms.sampling);
        check_sampling(read->terms.sampling);
        CHECK(check_ranges(*read, testing::default_config.request));
      }
    }
  }
  CHECK(taken > 500);
}

TEST_CASE("typed numbers out of range are refused, and tiny temperatures become zero") {
  const auto refused = [](auto change) {
    generate g;
    g.input = "x";
    g.terms.stop.max_tokens = 1;
    change(g.terms.sampling);
    const auto ok = check_ranges(g, testing::default_config.request);
    return ok ? std::string() : ok.error().param;
  };
  constexpr float denormal = 1e-44F, infinite = std::numeric_limits<float>::infinity(),
                  nan = std::numeric_limits<float>::quiet_NaN();
  for (const float wrong : {denormal, 0.0F, -0.0F, 1e-3F, 101.0F, infinite, -infinite, nan}) {
    CAPTURE(wrong);
    CHECK(refused([&](auto& s) { s.repetition_penalty = wrong; }) == "repetition_penalty");
  }
  for (const float wrong : {infinite, -infinite, nan}) {
    CAPTURE(wrong);
    CHECK(refused([&](auto& s) { s.temperature = wrong; }) == "temperature");
    CHECK(refused([&](auto& s) { s.min_p = wrong; }) == "min_p");
    CHECK(refused([&](auto& s) { s.top_p = wrong; }) == "top_p");
    CHECK(refused([&](auto& s) { s.biases = {{1, wrong}}; }) == "logit_bias");
  }
  CHECK(refused([&](auto& s) { s.top_p = denormal; }) == "top_p"); // 0, to some processors
  CHECK(refused([&](auto& s) { s.typical_p = denormal; }) == "typical_p");
  CHECK(refused([&](auto& s) { s.min_p = s.temperature = denormal; }).empty());
  CHECK(refused([](auto& s) { s.repetition_penalty = 0.01F; }).empty());
  sampling_params s;
  s.temperature = denormal;
  s.min_p = s.frequency_penalty = -0.0F;
  s.presence_penalty = -denormal;
  normalize_numbers(s);
  CHECK(s.is_greedy());
  CHECK_FALSE(std::signbit(s.temperature));
  CHECK_FALSE(std::signbit(s.min_p));
  CHECK(s.presence_penalty == 0);
  s.temperature = temperature_least;
  normalize_numbers(s);
  CHECK(s.temperature == temperature_least);
}
