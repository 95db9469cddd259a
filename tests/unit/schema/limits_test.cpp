// The limits that an API server checks before it encodes, each under its parameter's name.
#include "schema/codec/codec.hpp"
#include "schema/limits.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>

using namespace baton;

TEST_CASE("a request beyond a limit is refused by the name of its parameter") {
  struct row {
    const char* param;
    errc code;
    std::function<void(generate&)> spoil;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const row rows[] = {
      {"prompt", errc::payload_too_large,
       [](generate& g) { g.input = std::string(limits::prompt_bytes_max + 1, 'x'); }},
      {"prompt", errc::invalid_value,
       [](generate& g) { g.input = ids_prompt(limits::ids_max + 1); }},
      {"messages", errc::invalid_value,
       [](generate& g) { g.input = chat_prompt(limits::chat_messages_max + 1); }},
      {"messages", errc::payload_too_large,
       [](generate& g) {
         g.input = chat_prompt(2, {"user", std::string(limits::prompt_bytes_max / 2 + 1, 'x'), ""});
       }},
      {"messages", errc::invalid_value,
       [](generate& g) {
         g.input = chat_prompt{{std::string(limits::name_bytes_max + 1, 'x'), "", ""}};
       }},
      {"messages", errc::invalid_value,
       [](generate& g) {
         g.input = chat_prompt{{"tool", "", "", "", std::string(limits::name_bytes_max + 1, 'x')}};
       }},
      {"messages", errc::payload_too_large,
       [](generate& g) {
         g.input =
             chat_prompt{{"assistant", "x", "", std::string(limits::prompt_bytes_max, 'x'), ""}};
       }},
      {"tools", errc::payload_too_large,
       [](generate& g) {
         g.input = chat_prompt{{"user", "x", ""}};
         g.tools = std::string(limits::prompt_bytes_max, 'x');
       }},
      {"documents", errc::payload_too_large,
       [](generate& g) {
         g.input = chat_prompt{{"user", "x", ""}};
         g.template_options.documents = std::string(limits::prompt_bytes_max, 'x');
       }},
      {"chat_template_kwargs", errc::payload_too_large,
       [](generate& g) {
         g.template_options.documents = std::string(limits::prompt_bytes_max, 'x');
         g.template_options.kwargs = "{}";
       }},
      {"model", errc::model_not_found,
       [](generate& g) { g.model = std::string(limits::name_bytes_max + 1, 'x'); }},
      {"cache_salt", errc::invalid_value,
       [](generate& g) { g.terms.cache_salt = std::string(limits::name_bytes_max + 1, 'x'); }},
      {"request_id", errc::invalid_value,
       [](generate& g) { g.request_id = std::string(limits::name_bytes_max + 1, 'x'); }},
      {"n", errc::invalid_value, [](generate& g) { g.terms.choices = 0; }},
      {"n", errc::invalid_value, [](generate& g) { g.terms.choices = limits::choices_max + 1; }},
      {"timeout", errc::invalid_value,
       [](generate& g) { g.terms.deadline = std::chrono::milliseconds{-1}; }},
      {"timeout", errc::invalid_value,
       [](generate& g) { g.terms.deadline = limits::duration_max + std::chrono::milliseconds{1}; }},
      {"temperature", errc::invalid_value,
       [nan](generate& g) { g.terms.sampling.temperature = nan; }},
      {"min_p", errc::invalid_value, [nan](generate& g) { g.terms.sampling.min_p = nan; }},
      {"logit_bias", errc::invalid_value,
       [nan](generate& g) {
         g.terms.sampling.biases = {{1, nan}};
       }},
      {"logit_bias", errc::invalid_value,
       [](generate& g) { g.terms.sampling.biases.resize(limits::biases_max + 1); }},
      {"top_logprobs", errc::invalid_value, [](generate& g) { g.terms.sampling.logprobs = 129; }},
      {"stop", errc::invalid_value,
       [](generate& g) { g.terms.stop.stop_texts.resize(limits::stop_texts_max + 1); }},
      {"stop", errc::invalid_value,
       [](generate& g) {
         g.terms.stop.stop_texts = {std::string(limits::stop_bytes_max + 1, 'x')};
       }},
      {"stop_token_ids", errc::invalid_value,
       [](generate& g) { g.terms.stop.stop_ids.resize(limits::stop_ids_max + 1); }},
  };
  for (const auto& r : rows) {
    CAPTURE(r.param);
    generate g;
    r.spoil(g);
    auto checked = check_limits(g);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().param == r.param);
    CHECK(checked.error().code == r.code);
  }
}

TEST_CASE("a request at every limit is accepted, encoded and decoded") {
  generate g;
  g.model = std::string(limits::name_bytes_max, 'm');
  g.input =
      chat_prompt(limits::chat_messages_max,
                  {std::string(32, 'r'),
                   std::string(limits::prompt_bytes_max / limits::chat_messages_max, 'x'), ""});
  g.terms.choices = limits::choices_max;
  g.terms.deadline = limits::duration_max;
  g.terms.sampling.logprobs = limits::top_logprobs_max;
  g.terms.sampling.biases.resize(limits::biases_max);
  g.terms.stop.stop_ids.resize(limits::stop_ids_max);
  g.terms.stop.stop_texts.assign(limits::stop_texts_max, std::string(limits::stop_bytes_max, 's'));
  REQUIRE(check_limits(g));
  auto made = encode({}, g);
  CHECK(made.body.size_bytes <= limits::client_body_bytes_max);
  CHECK(decode_body(*decode_envelope(made.head), made.body, {}));
}
