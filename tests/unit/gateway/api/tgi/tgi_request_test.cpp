// TGI's bodies to typed requests: every field, every range, every refusal by name. Table-driven.
#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/api/tgi/tgi_routes.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace baton;
using namespace baton::gateway;

namespace {

std::string tgi_body_with(const std::string& parameters) {
  return R"({"inputs":"h\u00e9","parameters":{)" + parameters + "}}";
}

tgi_generate generate_of(const std::string& parameters) {
  auto r = parse_tgi(tgi_route::generate, tgi_body_with(parameters), testing::default_config);
  REQUIRE_MESSAGE(r, parameters);
  return *r;
}

error tgi_error_of(tgi_route route, const std::string& body) {
  auto r = parse_tgi(route, body, testing::default_config);
  REQUIRE_FALSE_MESSAGE(r, body);
  return r.error();
}

} // namespace

TEST_CASE("a request of TGI with empty parameters is greedy, up to the context's end") {
  const auto r = generate_of("");
  CHECK(std::get<std::string>(r.request.input) == "h\xC3\xA9");
  CHECK(r.request.terms.sampling.is_greedy());
  CHECK(r.request.terms.sampling.logprobs == -1);
  CHECK_FALSE(r.request.terms.sampling.has_watermark());
  CHECK_FALSE(r.request.terms.max_tokens_given);
  CHECK(r.request.terms.choices == 1);
  CHECK(r.request.prompt_tokens_max == 0);
  CHECK(r.request.terms.stop.include_stop_text);
  CHECK_FALSE(r.shape.is_stream);
  CHECK_FALSE(r.shape.is_list);
  CHECK_FALSE(r.shape.seed);
  CHECK(r.shape.lead.empty());
  CHECK(r.shape.prompt_characters == 2);
}

TEST_CASE("details of the prompt are requested with the details of the answer") {
  const auto r = generate_of(R"("details":true,"decoder_input_details":true)");
  CHECK(r.request.terms.sampling.prompt_logprobs == 0);
  CHECK(generate_of(R"("details":true)").request.terms.sampling.prompt_logprobs == -1);
  const auto streamed = tgi_error_of(
      tgi_route::generate_stream, tgi_body_with(R"("details":true,"decoder_input_details":true)"));
  CHECK(streamed.param == "parameters.decoder_input_details");
}

TEST_CASE("every field of TGI reaches its typed field") {
  const auto r = generate_of(
      R"("temperature":0.5,"top_k":40,"top_p":0.25,"typical_p":0.75,"repetition_penalty":1.5,)"
      R"("frequency_penalty":-2,"seed":18446744073709551615,"max_new_tokens":7,"stop":["a","b"],)"
      R"("truncate":3,"details":true,"top_n_tokens":2,"watermark":true,"return_full_text":true,)"
      R"("do_sample":true,"best_of":1,"adapter_id":null,"decoder_input_details":false)");
  const auto& g = r.request;
  CHECK(g.terms.sampling.temperature == 0.5F);
  CHECK(g.terms.sampling.top_k == 40);
  CHECK(g.terms.sampling.top_p == 0.25F);
  CHECK(g.terms.sampling.typical_p == 0.75F);
  CHECK(g.terms.sampling.repetition_penalty == 1.5F);
  CHECK(g.terms.sampling.frequency_penalty == -2);
  CHECK(g.terms.sampling.seed == ~std::uint64_t{0});
  CHECK(g.terms.sampling.logprobs == 2);
  CHECK(g.terms.sampling.watermark_gamma == 0.5F);
  CHECK(g.terms.sampling.watermark_delta == 2);
  CHECK(g.terms.stop.max_tokens == 7);
  CHECK(g.terms.max_tokens_given);
  CHECK(g.terms.stop.stop_texts == std::vector<std::string>{"a", "b"});
  CHECK(g.prompt_tokens_max == 3);
  CHECK(r.shape.has_details);
  CHECK(r.shape.has_stops);
  CHECK(r.shape.top_n_tokens == 2);
  CHECK(r.shape.seed == ~std::uint64_t{0});
  CHECK(r.shape.lead == "h\xC3\xA9");
}

TEST_CASE("sampling is enabled by do_sample or by any sampling parameter") {
  struct row {
    const char* parameters;
    bool is_sampled;
  };
  const row rows[] = {{R"("temperature":1)", false},   {R"("seed":4)", false},
                      {R"("do_sample":false)", false}, {R"("top_p":1)", false},
                      {R"("do_sample":true)", true},   {R"("temperature":0.9)", true},
                      {R"("top_k":1)", true},          {R"("top_p":0.9)", true},
                      {R"("typical_p":0.9)", true},    {R"("do_sample":null,"top_k":3)", true}};
  for (const auto& r : rows) {
    CAPTURE(r.parameters);
    const auto g = generate_of(r.parameters);
    CHECK(g.request.terms.sampling.is_greedy() == !r.is_sampled);
    CHECK(g.shape.seed.has_value() == r.is_sampled);
  }
  // Without any parameters TGI samples.
  const auto bare = parse_tgi(tgi_route::generate, R"({"inputs":"a"})", testing::default_config);
  REQUIRE(bare);
  CHECK(bare->request.terms.sampling.temperature == 1);
}

TEST_CASE("the root's answer is a list with the prompt, or a stream") {
  const auto whole = parse_tgi(tgi_route::root, R"({"inputs":"a"})", testing::default_config);
  REQUIRE(whole);
  CHECK(whole->shape.is_list);
  CHECK_FALSE(whole->shape.is_stream);
  CHECK(whole->shape.lead == "a");
  const auto stream = parse_tgi(
      tgi_route::root, R"({"inputs":"a","stream":true,"parameters":{"return_full_text":false}})",
      testing::default_config);
  REQUIRE(stream);
  CHECK(stream->shape.is_stream);
  CHECK(stream->shape.lead.empty());
  CHECK(stream->request.terms.sampling.logprobs == 0); // each event has one
  const auto by_route =
      parse_tgi(tgi_route::generate_stream, R"({"inputs":"a"})", testing::default_config);
  REQUIRE(by_route);
  CHECK(by_route->shape.is_stream);
  CHECK(tgi_error_of(tgi_route::generate, R"({"inputs":"a","stream":true})").param == "stream");
  CHECK(tgi_error_of(tgi_route::generate_stream, R"({"inputs":"a","stream":false})").param ==
        "stream");
}

TEST_CASE("the best of several is drawn as so many choices, with their log-probabilities") {
  const auto r = generate_of(R"("best_of":3,"do_sample":true)");
  CHECK(r.request.terms.choices == 3);
  CHECK(r.shape.best_of == 3);
  CHECK(r.request.terms.sampling.logprobs == 0);
  const auto stream = R"({"inputs":"a","parameters":{"best_of":2,"do_sample":true}})";
  CHECK(tgi_error_of(tgi_route::generate_stream, stream).param == "parameters.best_of");
}

TEST_CASE("a grammar becomes a constraint, its schema in the client's order") {
  struct row {
    const char* grammar;
    constraint_kind kind;
    const char* text;
  };
  const row rows[] = {
      {R"({"type":"regex","value":"[ab]+"})", constraint_kind::regex, "[ab]+"},
      {R"({"type":"json","value":{"properties":{"b":{"type":"null"},"a":{"type":"null"}}}})",
       constraint_kind::json_schema, R"({"properties":{"b":{"type":"null"},"a":{"type":"null"}}})"},
      {R"({"type":"json_object","value":{"type":"object"}})", constraint_kind::json_schema,
       R"({"type":"object"})"},
      {R"({"type":"json","value":"{\"type\":\"null\"}"})", constraint_kind::json_schema,
       R"({"type":"null"})"},
      {R"({"type":"json_schema","value":{"name":"n","strict":true,"schema":{"type":"null"}}})",
       constraint_kind::json_schema, R"({"type":"null"})"}};
  for (const auto& r : rows) {
    CAPTURE(r.grammar);
    const auto g = generate_of(std::string(R"("grammar":)") + r.grammar);
    REQUIRE(g.request.terms.sampling.constraint);
    CHECK(g.request.terms.sampling.constraint->kind == r.kind);
    CHECK(g.request.terms.sampling.constraint->text == r.text);
  }
}

TEST_CASE("errors in a parameter are refused by its name") {
  struct row {
    const char* parameters;
    const char* param;
    errc code = errc::invalid_value;
  };
  const row rows[] = {
      {R"("temperature":0)", "parameters.temperature"},
      {R"("temperature":2.5)", "parameters.temperature"},
      {R"("temperature":"hot")", "parameters.temperature"},
      {R"("top_k":0)", "parameters.top_k"},
      {R"("top_k":1.5)", "parameters.top_k"},
      {R"("top_p":0)", "parameters.top_p"},
      {R"("top_p":1.5)", "parameters.top_p"},
      {R"("typical_p":-1)", "parameters.typical_p"},
      {R"("repetition_penalty":0)", "parameters.repetition_penalty"},
      {R"("frequency_penalty":3)", "parameters.frequency_penalty"},
      {R"("seed":"x")", "parameters.seed"},
      {R"("max_new_tokens":0)", "parameters.max_new_tokens"},
      {R"("max_new_tokens":1e300)", "parameters.max_new_tokens"},
      {R"("stop":[1])", "parameters.stop"},
      {R"("stop":[""])", "parameters.stop"},
      {R"("truncate":0)", "parameters.truncate"},
      {R"("details":1)", "parameters.details"},
      {R"("details":true,"top_n_tokens":21)", "parameters.top_n_tokens"},
      {R"("top_n_tokens":2)", "parameters.top_n_tokens"}, // it would not be shown
      {R"("watermark":"yes")", "parameters.watermark"},
      {R"("grammar":1)", "parameters.grammar"},
      {R"("grammar":{"type":"regex","value":1})", "parameters.grammar.value"},
      {R"("grammar":{"type":"regex"})", "parameters.grammar.value", errc::invalid_request},
      {R"("grammar":{"type":"lark","value":"a"})", "parameters.grammar.type"},
      {R"("grammar":{"type":"regex","value":"a","x":1})", "parameters.grammar.x",
       errc::unsupported_parameter},
      {R"("grammar":{"type":"json_schema","value":{"name":"n"}})",
       "parameters.grammar.value.schema", errc::invalid_request},
      {R"_("grammar":{"type":"regex","value":"(?=a)"})_", "parameters.grammar",
       errc::unsupported_parameter},
      {R"("adapter_id":"a")", "parameters.adapter_id", errc::unsupported_parameter},
      {R"("decoder_input_details":true)", "parameters.decoder_input_details"},
      {R"("best_of":0)", "parameters.best_of"},
      {R"("best_of":17,"do_sample":true)", "parameters.best_of"},
      {R"("best_of":2)", "parameters.best_of"}, // greedy answers are all equal
      {R"("top_q":0.5)", "parameters.top_q", errc::unsupported_parameter},
  };
  for (const auto& r : rows) {
    CAPTURE(r.parameters);
    const auto e = tgi_error_of(tgi_route::generate, tgi_body_with(r.parameters));
    CHECK(e.param == r.param);
    CHECK(e.code == r.code);
  }
}

TEST_CASE("errors around the parameters are refused by name") {
  struct row {
    const char* body;
    const char* param;
  };
  const row rows[] = {{"{}", "inputs"},
                      {R"({"inputs":null})", "inputs"},
                      {R"({"inputs":""})", "inputs"},
                      {R"({"inputs":["a","b"]})", "inputs"},
                      {R"({"inputs":"a","parameters":[]})", "parameters"},
                      {R"({"inputs":"a","prompt":"b"})", "prompt"},
                      {R"({"inputs":"a","stream":1})", "stream"},
                      {"[]", ""},
                      {"", ""},
                      {R"({"inputs":"a")", ""}};
  for (const auto& r : rows) {
    CAPTURE(r.body);
    CHECK(tgi_error_of(tgi_route::root, r.body).param == r.param);
  }
  const auto deep =
      R"({"inputs":"a","parameters":)" + std::string(1000, '[') + std::string(1000, ']') + "}";
  CHECK(tgi_error_of(tgi_route::root, deep).code == errc::invalid_request);
}

TEST_CASE("TGI's /tokenize is distinguished from vLLM's by its field") {
  CHECK_FALSE(parse_tgi_tokenize(R"({"prompt":"inputs"})", testing::default_config.request));
  CHECK_FALSE(parse_tgi_tokenize(R"({"prompt":"\"inputs\""})", testing::default_config.request));
  CHECK_FALSE(parse_tgi_tokenize(R"(["inputs"])", testing::default_config.request));
  const auto call = parse_tgi_tokenize(R"({"inputs":"hi"})", testing::default_config.request);
  REQUIRE(call);
  REQUIRE(*call);
  CHECK(answer_tgi(**call).family == &tgi_family);
  CHECK(std::get<std::string>((*call)->input) == "hi");
  const auto both =
      parse_tgi_tokenize(R"({"inputs":"a","prompt":"b"})", testing::default_config.request);
  REQUIRE(both);
  REQUIRE_FALSE(*both);
  CHECK((*both).error().param == "prompt");
}
