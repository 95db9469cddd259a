// JSON schemas by example: matching texts, others, and the keyword named in an error.
#include "tests/unit/grammar/grammar_walk.hpp"
#include "tests/unit/grammar/schema_check.hpp"

using namespace baton;
using baton::test::matches;
using baton::test::refusal_of;

namespace {

constraint schema(std::string source) {
  return {constraint_kind::json_schema, std::move(source)};
}

struct schema_row {
  const char* source;
  std::vector<const char*> matching;
  std::vector<const char*> others;
};

void check(const schema_row& r) {
  CAPTURE(r.source);
  auto of = test::automaton_of(schema(r.source));
  for (const auto* text : r.matching) {
    CHECK_MESSAGE(matches(of, text), text);
    CHECK_MESSAGE(test::is_valid(r.source, text), text);
  }
  for (const auto* text : r.others)
    CHECK_MESSAGE(!matches(of, text), text);
}

} // namespace

TEST_CASE("scalars") {
  const schema_row rows[] = {
      {R"({"type":"string"})", {R"("")", R"("a\n\"é\u00e9")"}, {"a", R"("a)", "1"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("é\n中")", R"("\ud83d\ude00x")"},
       {R"("a")", R"("abcd")", R"("\ud83d\ude00")"}},
      {R"({"type":"string","pattern":"^[a-c]+\"?$"})",
       {R"("abc")", R"("a\"")"},
       {R"("")", R"("d")", R"("\u0061")"}},
      {R"({"type":"string","pattern":"b"})", {R"("abc")", R"("b")"}, {R"("ac")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-28")", R"("1999-12-31")"},
       {R"("2024-02-30")", R"("2024-13-01")", R"("24-01-01")", R"("0000-01-01")"}},
      {R"({"type":"string","format":"date-time"})",
       {R"("2024-02-28T23:59:59.5Z")", R"("2024-02-28T00:00:00+02:00")"},
       {R"("2024-02-28")", R"("2024-02-28T24:00:00Z")", R"("2024-02-28T23:59:59")"}},
      {R"({"format":"uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567e89b12d3a456426614174000")"}},
      {R"({"format":"email"})", {R"("a.b@c-d.org")"}, {R"("a@")", R"("a.@b.c")", R"("@b.c")"}},
      {R"({"format":"ipv4"})", {R"("127.0.0.255")"}, {R"("127.0.0.256")", R"("1.2.3")"}},
      {R"({"type":"string","format":"uuid","pattern":"^a+$"})", {R"("aa")"}, {R"("b")"}},
      {R"({"type":"string","format":"iri","pattern":"^a+$"})", {R"("aa")"}, {R"("b")"}},
      {R"({"type":"string","format":"iri","maxLength":2})", {R"("aa")"}, {R"("aaa")"}},
      {R"({"type":"string","format":"uri","minLength":1,"maxLength":2083})", // pydantic's HttpUrl
       {R"("https://a.org/b")"},
       {R"("a.org")", R"("")"}},
      {R"({"type":"string","format":"ipv4","minLength":7,"maxLength":15})",
       {R"("1.2.3.4")"},
       {R"("1.2.3")", R"("1234567")"}},
      {R"({"type":"string","format":"ipv4","maxLength":14})", {R"("1.2.3.4")", R"("x")"}, {}},
      {R"({"type":"string","format":"date","minLength":11})",
       {R"("2024-02-28x")"},
       {R"("2024-02-28")"}},
      {R"({"type":"string","format":"date","enum":["x"]})", {R"("x")"}, {R"("2024-02-28")"}},
      {R"({"type":"integer","format":"int64"})", {"1"}, {"1.5"}},
      {R"({"type":"integer"})", {"0", "-12", "123456789012345678"}, {"1.0", "01", "1e3", "-"}},
      {R"({"type":"number"})", {"0", "-1.5", "1e10", "2.5E-3"}, {"1.", ".5", "+1", "NaN", "1e400"}},
      {R"({"type":"integer","minimum":-3,"exclusiveMaximum":12})",
       {"-3", "0", "11"},
       {"-4", "12", "110", "-0"}},
      {R"({"type":"number","minimum":0.5,"maximum":1.25})",
       {"0.5", "0.75", "1", "1.25", "1.249999"},
       {"0.4", "0", "1.26", "1.250001", "5e-1", "-0.5"}},
      {R"({"type":"number","multipleOf":1,"minimum":1})", {"1", "20"}, {"1.5", "0"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "null"}},
      {R"({"type":"null"})", {"null"}, {"none", ""}},
      {R"({"type":["string","null"]})", {"null", R"("x")"}, {"1"}},
      {R"({"enum":["a",1,null,{"x":[1,2]},true]})",
       {R"("a")", "1", "null", R"({"x": [1, 2]})", "true"},
       {R"("b")", "2"}},
      {R"({"enum":["a",1,null],"type":["string","null"]})", {R"("a")", "null"}, {"1"}},
      {R"({"const":"é\n"})", {"\"é\\n\""}, {R"("e")"}},
      {R"({})", {"1", R"({"a": []})", "null"}, {"", "nul"}},
      {"true", {"[]"}, {""}},
  };
  for (const auto& r : rows)
    check(r);
}

TEST_CASE("objects") {
  const schema_row rows[] = {
      {R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},
           "required":["b","a"],"additionalProperties":false})",
       {R"({"b":1,"a":"x"})", R"({ "b": 1, "a": "x" })", "{\n  \"b\": 1,\n  \"a\": \"x\"\n}"},
       {R"({"a":"x","b":1})", R"({"b":1})", "{}", R"({"b":1,"a":"x","c":2})",
        R"({"b":1,"a":"x",})"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},
           "required":["b"]})",
       {R"({"b":1})", R"({"a":1,"b":2})", R"({"b":1,"c":2})", R"({"a":1,"b":2,"c":3})"},
       {"{}", R"({"a":1})", R"({"a":1,"c":2})", R"({,"b":1})", R"({"b":1,})", R"({"b":1,"d":2})"}},
      {R"({"properties":{"a":{"type":"integer"},"ab":{"type":"integer"}},
           "additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"a":1})", R"({"a":1,"x":true})", R"({"ac":true,"":false,"\"q":true})",
        R"({"ab":1,"abc":true})"},
       {R"({"x":1})", R"({"x":true,"a":1})", R"({"a":true})", R"({"ab":true})",
        R"({"\u0061":true})"}},
      {R"({"type":"object"})", {"{}", R"({"a":1,"b":[{}]})"}, {"[]", R"({"a"})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"},"propertyNames":
           {"pattern":"^[a-z]+$"},"minProperties":1,"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"A":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","properties":{},"additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","required":["x"]})", {R"({"x":1})", R"({"x":{}})"}, {"{}"}},
      {R"({"properties":{"a":false,"b":{"type":"null"}}})",
       {"{}", R"({"b":null})"},
       {R"({"a":1})", R"({"a":null,"b":null})"}},
  };
  for (const auto& r : rows)
    check(r);
}

TEST_CASE("arrays") {
  const schema_row rows[] = {
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1, 2,3]", "[\n  1\n]"},
       {"[", "[1,]", "[\"a\"]", "[,1]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,3]"},
       {"[]", "[1]", "[1,2,3,4]"}},
      {R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":1})",
       {"[1]", R"([1,"a"])"},
       {"[]", R"([1,"a",2])", R"(["a"])"}},
      {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"boolean"},"maxItems":3})",
       {"[]", "[1]", "[1,true,false]"},
       {"[true]", "[1,true,false,true]", "[1,2]"}},
      {R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"null"}})",
       {"[1,null,null]", "[]"},
       {"[1,2]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"integer"}],"maxItems":1})",
       {"[1]", "[]"},
       {"[1,2]"}},
      {R"({"type":"array","items":{"type":"array","items":{"enum":["x"]},"minItems":1}})",
       {R"([["x"],["x","x"]])"},
       {"[[]]"}},
  };
  for (const auto& r : rows)
    check(r);
}

TEST_CASE("references and combinations") {
  const schema_row rows[] = {
      {R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},
           "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}},
           "$ref":"#/$defs/node"})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
      {R"({"type":"object","properties":{"child":{"$ref":"#"}}})",
       {"{}", R"({"child":{"child":{}}})"},
       {R"({"child":1})"}},
      {R"({"definitions":{"a/b~":{"type":"integer"}},"$ref":"#/definitions/a~1b~0"})",
       {"1"},
       {R"("x")"}},
      {R"({"anyOf":[{"type":"integer","minimum":0},{"type":"boolean"}],"title":"x"})",
       {"1", "true"},
       {"-1", "null"}},
      {R"({"type":"object","properties":{"kind":{"type":"string"},"n":{"type":"integer"},
           "s":{"type":"string"}},"required":["kind"],"oneOf":[
           {"properties":{"kind":{"const":"n"}},"required":["n"]},
           {"properties":{"kind":{"const":"s"}},"required":["s"]}]})",
       {R"({"kind":"n","n":1})", R"({"kind":"s","s":"x"})"},
       {R"({"kind":"n","s":"x"})", R"({"kind":"s"})", R"({"kind":"q","n":1})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},
           {"properties":{"b":{"type":"string"}},"required":["b"]}]})",
       {R"({"a":1,"b":"x"})"},
       {R"({"a":1})", R"({"b":"x"})"}},
      {R"({"allOf":[{"type":"integer","minimum":2},{"minimum":5,"maximum":9},{"maximum":7}]})",
       {"5", "7"},
       {"4", "8"}},
      {R"({"$defs":{"base":{"properties":{"id":{"type":"integer"}},"required":["id"]}},
           "allOf":[{"$ref":"#/$defs/base"},{"properties":{"id":{"maximum":5}}}]})",
       {R"({"id":5})"},
       {R"({"id":6})", "{}"}},
      {R"({"type":["integer","string"],"allOf":[{"type":["number","null"]}]})", {"1"}, {"1.5"}},
  };
  for (const auto& r : rows)
    check(r);
}

TEST_CASE("keywords that cannot be enforced are rejected by name") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"type":"array","uniqueItems":true})", "'uniqueItems'"},
      {R"({"not":{"type":"string"}})", "'not'"},
      {R"({"if":{},"then":{}})", "'if'"},
      {R"({"type":"object","properties":{"a":{"patternProperties":{}}}})", "#/properties/a"},
      {R"({"type":"string","format":"iri"})", "'iri'"},
      {R"({"type":"number","multipleOf":0.5})", "'multipleOf'"},
      {R"({"type":"string","pattern":"a","minLength":3})", "'pattern'"},
      {R"-({"type":"string","pattern":"(?=a)"})-", "look-around"},
      {R"({"$ref":"https://example.org/x"})", "example.org"},
      {R"({"enum":["a"],"minLength":3})", "'minLength' beside 'enum'"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "'pattern'"},
      {R"({"type":"object","minProperties":2})", "'minProperties'"},
      {R"({"type":"number","minimum":0.00000001})", "'minimum'"},
      {R"({"$anchor":"x"})", "'$anchor'"},
  };
  for (const auto& [source, what] : rows) {
    CAPTURE(source);
    const auto e = refusal_of(schema(source));
    CHECK_MESSAGE(e.code == errc::unsupported_parameter, e.message);
    CHECK_MESSAGE(e.message.find(what) != std::string::npos, e.message);
  }
}

TEST_CASE("invalid schemas are rejected") {
  for (const char* source : {"",
                             "{",
                             "[]",
                             "1",
                             R"({"type":"text"})",
                             R"({"type":1})",
                             R"({"properties":[]})",
                             R"({"required":"a"})",
                             R"({"required":[1]})",
                             R"({"enum":[]})",
                             R"({"enum":{}})",
                             R"({"anyOf":[]})",
                             R"({"allOf":{}})",
                             R"({"$ref":"#/nowhere"})",
                             R"({"$ref":1})",
                             R"({"$ref":"#"})",
                             R"({"minLength":-1,"type":"string"})",
                             R"({"type":"array","minItems":"1"})",
                             R"({"type":"integer","minimum":"1"})",
                             R"({"type":"integer","minimum":3,"maximum":2})",
                             R"({"type":"string","minLength":3,"maxLength":2})",
                             "false",
                             R"({"const":1,"type":"string"})",
                             R"({"properties":{"a":false},"required":["a"]})",
                             R"({"a":1,"a":2})",
                             R"({"type":[]})",
                             R"({"prefixItems":1})",
                             R"({"type":"string","pattern":1})",
                             "{\"title\":\"\xff\"}",
                             R"({"type":"string","pattern":"("})"}) {
    CAPTURE(source);
    CHECK_FALSE(grammar::compile(schema(source)).has_value());
  }
}

TEST_CASE("hostile schemas are rejected quickly") {
  const auto deep = [](std::size_t n) {
    std::string all;
    for (std::size_t i = 0; i < n; ++i)
      all += R"({"items":)";
    return all + "{}" + std::string(n, '}');
  };
  CHECK(grammar::compile(schema(deep(30))).has_value());
  CHECK_FALSE(grammar::compile(schema(deep(2000))).has_value());
  // Each definition combines the next one twice: 2^30 if they were expanded.
  std::string doubling = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 30; ++i)
    doubling += fmt::format(R"("d{}":{{"type":"object","anyOf":[{{"$ref":"#/$defs/d{}"}},)"
                            R"({{"$ref":"#/$defs/d{}"}}]}},)",
                            i, i + 1, i + 1);
  CHECK_FALSE(grammar::compile(schema(doubling + R"("d30":{"type":"object"}}})")).has_value());
  CHECK_FALSE(
      grammar::compile(schema(R"({"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},
                                  "$ref":"#/$defs/a"})"))
          .has_value());
  CHECK_FALSE(grammar::compile(schema("{\"title\":\"" + std::string(70'000, 'x') + "\"}")));
  std::string wide = R"({"type":"object","additionalProperties":{},"properties":{)";
  for (int i = 0; i < 1500; ++i)
    wide += fmt::format("{}\"property_{}\":{{\"type\":\"integer\"}}", i > 0 ? "," : "", i);
  CHECK(grammar::compile(schema(wide + "}}")).has_value());
}

TEST_CASE("strings may be long") {
  auto of = test::automaton_of(schema(R"({"type":"string","maxLength":20000})"));
  CHECK(matches(of, "\"" + std::string(20'000, 'x') + "\""));
  CHECK_FALSE(matches(of, "\"" + std::string(20'001, 'x') + "\""));
}
