// POST /v1/embeddings: a request for each input, fields refused by name, and fields never refused.
#include "gateway/api/openai/request/embedding_request.hpp"
#include "schema/limits.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

embedding_call embedding_call_of(const std::string& fields) {
  auto r = parse_embeddings("{" + fields + "}", testing::default_limits);
  REQUIRE_MESSAGE(r, fields << ": " << (r ? "" : r.error().message));
  return *std::move(r);
}

error embedding_error(const std::string& body) {
  const auto r = parse_embeddings(body, testing::default_limits);
  REQUIRE_FALSE_MESSAGE(r, body);
  return r.error();
}

} // namespace

TEST_CASE("each input is a request that draws no tokens") {
  const auto one = embedding_call_of(R"("model":"m","input":"a text","user":"u")");
  REQUIRE(one.requests.size() == 1);
  CHECK(one.model == "m");
  CHECK(one.format == embedding_format::numbers);
  const auto texts =
      embedding_call_of(R"("input":["a","b","c"],"encoding_format":"base64","priority":-2)");
  REQUIRE(texts.requests.size() == 3);
  CHECK(texts.model.empty());
  CHECK(texts.format == embedding_format::base64);
  for (const auto& r : texts.requests) {
    CHECK(r.terms.wants_embedding);
    CHECK(r.priority == -2);
    CHECK((r.terms.max_tokens_given && r.terms.stop.max_tokens == 1)); // of its context
    CHECK(check_limits(r));
    CHECK(check_ranges(r, testing::default_limits));
  }
  CHECK(std::get<std::string>(texts.requests[2].input) == "c");
}

TEST_CASE("ids are used unchanged, one list or several") {
  CHECK(std::get<ids_prompt>(embedding_call_of(R"("input":[1,2,3])").requests[0].input) ==
        ids_prompt{1, 2, 3});
  const auto lists = embedding_call_of(R"("input":[[1,2],[3]])");
  REQUIRE(lists.requests.size() == 2);
  CHECK(std::get<ids_prompt>(lists.requests[1].input) == ids_prompt{3});
}

TEST_CASE("impossible values are refused, with the parameter's name") {
  for (const auto& [body, code, param] : std::vector<std::tuple<std::string, errc, std::string>>{
           {"{}", errc::invalid_request, "input"},
           {R"({"input":null})", errc::invalid_request, "input"},
           {R"({"input":5})", errc::invalid_value, "input"},
           {R"({"input":[]})", errc::invalid_value, "input"},
           {R"({"input":[[]]})", errc::invalid_value, "input"},
           {R"({"input":["a",[1]]})", errc::invalid_value, "input"},
           {R"({"input":["a",7]})", errc::invalid_value, "input"},
           {R"({"input":[-1]})", errc::invalid_value, "input"},
           {R"({"input":"a","encoding_format":"hex"})", errc::invalid_value, "encoding_format"},
           {R"({"input":"a","dimensions":64})", errc::unsupported_parameter, "dimensions"},
           {R"({"input":"a","stream":true})", errc::unsupported_parameter, "stream"},
           {R"({"input":"a","resumable":true})", errc::unsupported_parameter, "resumable"},
           {R"({"input":"a","truncate_prompt_tokens":5})", errc::unsupported_parameter,
            "truncate_prompt_tokens"},
           {R"({"messages":[],"input":"a"})", errc::unsupported_parameter, "messages"},
           {R"({"input":"a","temperature":1})", errc::invalid_value, "temperature"},
       }) {
    CAPTURE(body);
    const auto e = embedding_error(body);
    CHECK(e.param == param);
    CHECK(row_of(e.code).http_status == row_of(code).http_status);
  }
  CHECK(embedding_error(R"({"input":"a","dimensions":64})").code == errc::unsupported_parameter);
  CHECK(embedding_call_of(R"("input":"a","dimensions":null,"stream":false)").requests.size() == 1);
}

TEST_CASE("a call has as many inputs as a completion has answers") {
  std::string texts = R"("x")";
  for (std::uint32_t i = 1; i < testing::default_limits.answers_max; ++i) {
    texts += R"(,"x")";
  }
  CHECK(embedding_call_of(R"("input":[)" + texts + "]").requests.size() ==
        testing::default_limits.answers_max);
  const auto e = embedding_error(R"({"input":[)" + texts + R"(,"x"]})");
  CHECK(e.code == errc::invalid_value);
  CHECK(e.message.find("256") != e.message.npos);
}

TEST_CASE("token parameters do not apply to an embedding") {
  generate g;
  g.terms.wants_embedding = true;
  REQUIRE(check_limits(g));
  g.terms.choices = 2;
  REQUIRE_FALSE(check_limits(g));
  CHECK(check_limits(g).error().param == "n");
  g.terms.choices = 1;
  g.is_resumable = true;
  CHECK(check_limits(g).error().code == errc::unsupported_parameter);
  g.is_resumable = false;
  g.terms.sampling.logprobs = 0;
  CHECK(check_limits(g).error().param == "logprobs");
}
