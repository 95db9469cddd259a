// Fields that constrain the output: each reaches the typed request, or is refused by its name.
#include "gateway/api/openai/request/openai_request.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

result<openai_generate> parsed(const std::string& fields) {
  return parse_generation(openai_api::chat,
                          R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}",
                          testing::default_limits);
}

constraint taken(const std::string& fields) {
  CAPTURE(fields);
  const auto r = parsed(fields);
  REQUIRE_MESSAGE(r, r.error().message);
  REQUIRE(r->request.terms.sampling.constraint);
  return *r->request.terms.sampling.constraint;
}

error constraint_refused(const std::string& fields) {
  CAPTURE(fields);
  const auto r = parsed(fields);
  REQUIRE_FALSE(r);
  return r.error();
}

} // namespace

TEST_CASE("every constraint field reaches its typed field") {
  const auto schema = [](std::string text) {
    return constraint{constraint_kind::json_schema, std::move(text)};
  };
  CHECK(taken(R"("response_format":{"type":"json_object"})") ==
        constraint{constraint_kind::json_object, ""});
  CHECK(taken(R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,)"
              R"("description":"d","schema":{"type":"integer"}}})") ==
        schema(R"({"type":"integer"})"));
  CHECK(taken(R"("response_format":{"type":"json_object","value":{"type":"null"}})") ==
        schema(R"({"type":"null"})")); // TGI's
  CHECK(taken(R"("response_format":{"type":"json","value":{"type":"null"}})") ==
        schema(R"({"type":"null"})")); // the same with its other name
  CHECK(taken(R"("response_format":{"type":"regex","value":"a+"})") ==
        constraint{constraint_kind::regex, "a+"});
  CHECK(taken(R"("guided_json":{"type":"null"})") == schema(R"({"type":"null"})"));
  CHECK(taken(R"("guided_json":"{\"type\":\"null\"}")") == schema(R"({"type":"null"})"));
  CHECK(taken(R"("structured_outputs":{"json":{"type":"null"}})") == schema(R"({"type":"null"})"));
  CHECK(taken(R"("guided_regex":"a+")") == constraint{constraint_kind::regex, "a+"});
  CHECK(taken(R"("structured_outputs":{"regex":"a+","disable_any_whitespace":false})") ==
        constraint{constraint_kind::regex, "a+"});
  CHECK(taken(R"("guided_choice":["a","b"])") ==
        constraint{constraint_kind::choice, R"(["a","b"])"});
  CHECK(taken(R"("structured_outputs":{"choice":["a"]})") ==
        constraint{constraint_kind::choice, R"(["a"])"});
  CHECK(taken(R"("guided_grammar":"root ::= \"a\"")") ==
        constraint{constraint_kind::grammar, "root ::= \"a\""});
  CHECK(taken(R"("structured_outputs":{"grammar":"root ::= \"a\""})") ==
        constraint{constraint_kind::grammar, "root ::= \"a\""});
  CHECK(taken(R"("structured_outputs":{"json_object":true})") ==
        constraint{constraint_kind::json_object, ""});
  CHECK(taken(R"("guided_grammar":"start: \"a\"")") ==
        constraint{constraint_kind::grammar, "start: \"a\""});
}

TEST_CASE("structural tags come as JSON or as its text") {
  const std::string tag =
      R"({"type":"structural_tag","format":{"type":"const_string","value":"a"}})";
  const std::string old = R"({"type": "structural_tag","triggers":["<"],)"
                          R"("structures":[{"begin":"<","schema":{"b":1,"a":2},"end":">"}]})";
  const std::string quoted =
      R"("{\"type\":\"structural_tag\",\"format\":{\"type\":\"const_string\",\"value\":\"a\"}}")";
  for (const auto& fields :
       {R"("response_format":)" + tag, R"("structural_tag":)" + tag,
        R"("structured_outputs":{"structural_tag":)" + tag + "}", R"("structural_tag":)" + quoted,
        R"("structured_outputs":{"structural_tag":)" + quoted + "}"}) {
    CHECK(taken(fields.c_str()) == constraint{constraint_kind::tags, tag});
  }
  const auto unread = R"("response_format":)" + old;
  const auto r = parsed(unread.c_str()); // its schema has no keyword that is known
  REQUIRE_FALSE(r);
  CHECK(r.error().message.find("'b'") != std::string::npos);
}

TEST_CASE("a schema's members keep the order in which they were written") {
  const char* text = R"({ "properties": {"z": {"const":"}\"]"}, "a\u0062": {"type": "null"}},
    "required": ["z"] })";
  for (const char* around :
       {R"("guided_json": {})", R"("structured_outputs":{"regex":null,"json" :{} })",
        R"("response_format":{"json_schema":{"schema": {},"name":"n"},"type":"json_schema"})",
        // The last of two duplicates, whatever the first one contains.
        R"("guided_json":"x","user":"{\"guided_json\":1}","guided\u005fjson":{})"}) {
    std::string fields = around;
    const auto at = fields.rfind("{}");
    fields.replace(at, 2, text);
    CHECK(taken(fields).text == text);
  }
}

TEST_CASE("fields with neutral values are accepted") {
  for (const char* fields : {R"("response_format":{"type":"text"})", R"("response_format":null)",
                             R"("guided_json":null)", R"("structured_outputs":null)",
                             R"("guided_choice":null,"guided_regex":null)"}) {
    CAPTURE(fields);
    const auto r = parsed(fields);
    REQUIRE_MESSAGE(r, r.error().message);
    CHECK_FALSE(r->request.terms.sampling.constraint);
  }
}

TEST_CASE("an unsupported constraint is refused with the name of its field") {
  struct row {
    const char* fields;
    errc code;
    const char* param;
  };
  const row rows[] = {
      {R"("response_format":{"type":"xml"})", errc::invalid_value, "response_format.type"},
      {R"("response_format":{"type":"regex"})", errc::invalid_request, "response_format.value"},
      {R"("response_format":{"type":"json"})", errc::invalid_request, "response_format.value"},
      {R"("response_format":{"type":"structural_tag"})", errc::invalid_value, "response_format"},
      {R"("response_format":{"type":"structural_tag","format":{"type":"any_text"},"more":1})",
       errc::unsupported_parameter, "response_format.more"},
      {R"("response_format":{"type":"structural_tag","format":{"type":"xml"}})",
       errc::unsupported_parameter, "response_format"},
      {R"("structural_tag":5)", errc::invalid_value, "structural_tag"},
      {R"("structural_tag":"x")", errc::invalid_value, "structural_tag"},
      {R"("structural_tag":{},"guided_regex":"a")", errc::invalid_value, "structural_tag"},
      {R"("response_format":"json")", errc::invalid_value, "response_format"},
      {R"("response_format":{"type":"json_schema"})", errc::invalid_request,
       "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})",
       errc::invalid_request, "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{}}})",
       errc::invalid_request, "response_format.json_schema.name"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"not":{}}}})",
       errc::unsupported_parameter, "response_format"},
      {R"("response_format":{"type":"json_object","schema":{}})", errc::unsupported_parameter,
       "response_format.schema"},
      {R"("guided_json":{"type":"strin"})", errc::invalid_value, "guided_json"},
      {R"("guided_json":5)", errc::invalid_value, "guided_json"},
      {R"("guided_json":"{")", errc::invalid_value, "guided_json"},
      {R"-("guided_regex":"(?=a)")-", errc::unsupported_parameter, "guided_regex"},
      {R"("guided_regex":["a"])", errc::invalid_value, "guided_regex"},
      {R"("guided_choice":[])", errc::invalid_value, "guided_choice"},
      {R"("guided_choice":"a")", errc::invalid_value, "guided_choice"},
      {R"("guided_choice":[1])", errc::invalid_value, "guided_choice"},
      {R"("guided_grammar":"start: a")", errc::invalid_value, "guided_grammar"},
      {R"("structured_outputs":{})", errc::invalid_value, "structured_outputs.json"},
      {R"-("structured_outputs":{"regex":"("})-", errc::invalid_value, "structured_outputs"},
      {R"("structured_outputs":{"structural_tag":"x","regex":"a"})", errc::invalid_value,
       "structured_outputs"},
      {R"("structured_outputs":{"structural_tag":1})", errc::invalid_value,
       "structured_outputs.structural_tag"},
      {R"("structured_outputs":{"regex":"a","whitespace_pattern":" "})",
       errc::unsupported_parameter, "structured_outputs.whitespace_pattern"},
      {R"("structured_outputs":{"regex":"a","grammar":"root ::= \"a\""})", errc::invalid_value,
       "structured_outputs"},
      {R"("guided_regex":"a","guided_choice":["a"])", errc::invalid_value, "guided_choice"},
      {R"("guided_regex":"a","response_format":{"type":"json_object"})", errc::invalid_value,
       "guided_regex"},
      {R"("guided_whitespace_pattern":" ")", errc::unsupported_parameter,
       "guided_whitespace_pattern"},
  };
  for (const auto& r : rows) {
    const auto e = constraint_refused(r.fields);
    CAPTURE(r.fields);
    CHECK_MESSAGE(e.code == r.code, e.message);
    CHECK(e.param == r.param);
  }
  CHECK(constraint_refused(R"("guided_regex":")" + std::string(70'000, 'a') + "\"").code ==
        errc::invalid_value);
}
