// Constraints for tool calls: allowed outputs, and errors.
#include "tests/unit/grammar/grammar_walk.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::test;

namespace {

constexpr const char* tools =
    R"([{"name":"f","schema":{"type":"object","properties":{"n":{"type":"integer","maximum":9,)"
    R"("minimum":0}},"required":["n"],"additionalProperties":false}},{"name":"g"}])";

constraint calls(std::string_view format, std::uint32_t calls_max, bool has_text,
                 std::string_view of = tools) {
  return {constraint_kind::calls,
          fmt::format(R"({{"format":"{}","calls_max":{},"has_text":{},"tools":{}}})", format,
                      calls_max, has_text, of)};
}

std::string hermes(std::string_view inner) {
  return fmt::format("<tool_call>\n{}\n</tool_call>", inner);
}

const std::string f_call = R"({"name": "f", "arguments": {"n": 3}})";
const std::string g_call = R"({"name": "g", "arguments": {"any": [1]}})";

} // namespace

TEST_CASE("required calls allow only calls, with arguments that match their schema") {
  auto two = automaton_of(calls("hermes", 2, false));
  CHECK(matches(two, hermes(f_call)));
  CHECK(matches(two, hermes(f_call) + "\n" + hermes(g_call)));
  for (const auto& wrong :
       {std::string(), std::string("Hello"), f_call, "x" + hermes(f_call),
        hermes(f_call) + "\n" + hermes(f_call) + "\n" + hermes(f_call),
        hermes(R"({"name": "f", "arguments": {"n": 10}})"),
        hermes(R"({"name": "f", "arguments": {}})"), hermes(R"({"name": "h", "arguments": {}})"),
        hermes(R"({"name": "g", "arguments": 1})")}) {
    CAPTURE(wrong);
    CHECK_FALSE(matches(two, wrong));
  }
  auto one = automaton_of(calls("hermes", 1, false));
  CHECK(matches(one, hermes(g_call)));
  CHECK_FALSE(matches(one, hermes(f_call) + "\n" + hermes(g_call)));
}

TEST_CASE("each family's call format") {
  const std::string llama = R"({"name": "f", "parameters": {"n": 3}})";
  CHECK(matches(calls("llama3", 1, false), llama));
  CHECK_FALSE(matches(calls("llama3", 1, false), f_call));
  CHECK(matches(calls("mistral", 2, false), "[" + f_call + "]"));
  CHECK(matches(calls("mistral", 2, false), "[" + f_call + ", " + g_call + "]"));
  CHECK_FALSE(matches(calls("mistral", 2, false), "[]"));
  CHECK_FALSE(matches(calls("mistral", 2, false), f_call));
}

TEST_CASE("text may replace calls, and may precede calls that have a marker") {
  auto marked = automaton_of(calls("hermes", 2, true));
  for (const std::string text : {"", "Hello.", "a < b <tool <<tool_cal> </tool_call>", "é\n\n"}) {
    CAPTURE(text);
    CHECK(matches(marked, text));
    CHECK(matches(marked, text + hermes(f_call)));
  }
  CHECK_FALSE(matches(marked, "<tool_call>"));
  CHECK_FALSE(matches(marked, "<<tool_call>x"));
  CHECK_FALSE(matches(marked, "<tool_cal<tool_call>x"));
  CHECK_FALSE(matches(marked, hermes(f_call) + " and"));
  CHECK_FALSE(matches(marked, hermes(R"({"name": "f", "arguments": {"n": "x"}})")));

  auto bare = automaton_of(calls("llama3", 1, true));
  CHECK(matches(bare, R"({"name": "g", "parameters": {}})"));
  CHECK(matches(bare, "Hello {"));
  CHECK(matches(bare, " \n"));
  CHECK_FALSE(matches(bare, "{}"));
  CHECK_FALSE(matches(bare, " {}"));
  auto list = automaton_of(calls("mistral", 1, true));
  CHECK(matches(list, "{}"));
  CHECK(matches(list, "[" + g_call + "]"));
  CHECK_FALSE(matches(list, "[]"));
}

TEST_CASE("random output can always end, and satisfies the constraint") {
  std::mt19937 random(3);
  for (const auto* format : {"hermes", "llama3", "mistral"}) {
    auto of = automaton_of(calls(format, 3, false));
    for (int i = 0; i < 50; ++i) {
      const auto text = random_text(of, random);
      if (text) {
        CAPTURE(*text);
        CHECK(matches(of, *text));
        CHECK(text->find("\"name\": \"") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a schema that cannot be enforced is rejected with its tool's name") {
  const auto e = refusal_of(calls("hermes", 1, false, R"([{"name":"f","schema":{"not":{}}}])"));
  CHECK(e.code == errc::unsupported_parameter);
  CHECK(e.message.find("'f'") != std::string::npos);
  CHECK(e.message.find("'not'") != std::string::npos);
  for (const auto* text : {"", "{}", "[]", R"({"format":"hermes"})",
                           R"({"format":"hermes","calls_max":0,"tools":[{"name":"f"}]})",
                           R"({"format":"hermes","calls_max":"x","tools":[{"name":"f"}]})",
                           R"({"format":"hermes","calls_max":1e9,"tools":[{"name":"f"}]})",
                           R"({"format":"hermes","calls_max":1,"tools":[]})",
                           R"({"format":"hermes","calls_max":1,"tools":[{}]})",
                           R"({"format":"x","calls_max":1,"tools":[{"name":"f"}]})"}) {
    CAPTURE(text);
    CHECK(refusal_of({constraint_kind::calls, text}).code == errc::invalid_value);
  }
}

TEST_CASE("syntaxes without JSON keep a schema's references, patterns and unions") {
  const auto with = [](std::string_view property) {
    return fmt::format(
        R"([{{"name":"f","schema":{{"type":"object","properties":{{"a":{}}},)"
        R"("required":["a"],"$defs":{{"d":{{"type":"string","pattern":"^x+$"}}}}}}}}])",
        property);
  };
  const auto tagged = [&](std::string_view property, std::string_view value) {
    return matches(calls("qwen_xml", 1, false, with(property)),
                   fmt::format("<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n"
                               "</function>\n</tool_call>",
                               value));
  };
  CHECK(tagged(R"({"$ref":"#/$defs/d"})", "xx"));
  CHECK_FALSE(tagged(R"({"$ref":"#/$defs/d"})", "xy"));
  CHECK(tagged(R"({"type":"string"})", "a <b> \"c\"\n\n </parameter"));
  CHECK_FALSE(tagged(R"({"type":"string"})", "a</parameter>"));
  CHECK(tagged(R"({"type":"string","maxLength":3})", "a\nb"));
  CHECK_FALSE(tagged(R"({"type":"string","maxLength":3})", "abcd"));
  CHECK(tagged(R"({"type":"string","format":"date"})", "2026-11-27"));
  CHECK_FALSE(tagged(R"({"type":"string","format":"date"})", "today"));
  CHECK(tagged(R"({"enum":["a b",3,null]})", "a b"));
  CHECK(tagged(R"({"enum":["a b",3,null]})", "3"));
  CHECK_FALSE(tagged(R"({"enum":["a b",3,null]})", "\"a b\""));
  // A text that may also be a list does not look like one.
  constexpr std::string_view either =
      R"({"anyOf":[{"type":"string"},{"type":"array","maxItems":1}]})";
  CHECK(tagged(either, "a [b"));
  CHECK(tagged(either, "[1]"));
  CHECK_FALSE(tagged(either, "[1, 2]"));
  CHECK_FALSE(tagged(either, "[x"));
  CHECK(tagged(R"({"type":"object","properties":{"b":{"type":"string"}},"required":["b"]})",
               R"({"b": "c"})"));
  CHECK_FALSE(tagged(R"({"type":"object","properties":{"b":{"type":"string"}},"required":["b"]})",
                     R"({"b": c})"));
  // Free arguments, and a schema that has none.
  CHECK(matches(calls("glm", 1, false, R"([{"name":"f"}])"),
                "<tool_call>f\n<arg_key>any_1</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"));
  CHECK(matches(calls("pythonic", 1, false, R"([{"name":"f"}])"), "[f(a=1, b=\"x\")]"));
  CHECK_FALSE(matches(calls("pythonic", 1, false,
                            R"([{"name":"f","schema":{"type":"object",)"
                            R"("properties":{}}}])"),
                      "[f(a=1)]"));
  for (const auto* schema :
       {R"({"anyOf":[{"type":"object"}]})", R"({"type":"object","minProperties":1})",
        R"({"type":"object","properties":{"a<b":{}}})", R"({"type":"object","properties":{"":{}}})",
        R"({"type":"object","properties":{"a":{"not":{}}}})"}) {
    CAPTURE(schema);
    const auto e = refusal_of(
        calls("qwen_xml", 1, false, fmt::format(R"([{{"name":"f","schema":{}}}])", schema)));
    CHECK(e.code == errc::unsupported_parameter);
    CHECK(e.message.find("'f'") != std::string::npos);
  }
}

TEST_CASE("a tool without parameters accepts none") {
  const auto one =
      calls("hermes", 1, false, R"([{"name":"f","schema":{"type":"object","properties":{}}}])");
  CHECK(matches(one, hermes(R"({"name": "f", "arguments": {}})")));
  CHECK_FALSE(matches(one, hermes(R"({"name": "f", "arguments": {"a": 1}})")));
}

TEST_CASE("a constraint without calls is combined with another constraint") {
  const auto with = [](std::string_view format, std::string_view otherwise) {
    return constraint{constraint_kind::calls,
                      fmt::format(R"({{"format":"{}","calls_max":1,"has_text":false,)"
                                  R"("tools":[{{"name":"g"}}],"otherwise":{}}})",
                                  format, otherwise)};
  };
  constexpr std::string_view schema = R"({"kind":2,"text":"{\"type\":\"integer\"}"})";
  for (const auto* format : {"hermes", "llama3", "mistral"}) {
    auto of = automaton_of(with(format, schema));
    CHECK(matches(of, "42"));
    for (const auto* text : {"", "Hello", "{}", "4x"})
      CHECK_FALSE(matches(of, text));
  }
  auto marked = automaton_of(with("hermes", schema));
  CHECK(matches(marked, hermes(g_call)));
  CHECK_FALSE(matches(marked, "42" + hermes(g_call)));
  CHECK(matches(with("llama3", R"({"kind":1,"text":""})"), R"({"name": "g", "parameters": {}})"));
  CHECK(matches(with("llama3", R"({"kind":1,"text":""})"), R"({"a":1})"));
  CHECK(matches(with("hermes", R"({"kind":4,"text":"[\"yes\",\"no\"]"})"), "no"));
  for (const auto* otherwise : {"{}", R"({"kind":2})", R"({"kind":6,"text":"{}"})",
                                R"({"kind":0,"text":"x"})", R"({"kind":"2","text":"{}"})"}) {
    CAPTURE(otherwise);
    CHECK(refusal_of(with("hermes", otherwise)).code == errc::invalid_value);
  }
  CHECK(refusal_of(with("hermes", R"({"kind":2,"text":"{\"not\":{}}"})")).code ==
        errc::unsupported_parameter);
}
