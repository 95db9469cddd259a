// Tool calls in answers. Goal: each format is read, text without a call is unchanged, and the
// result does not depend on the pieces. Method: tables of answers, each cut into two at every place
// and into single bytes; random texts of the relevant pieces.
#include "tests/unit/gateway/api/openai/call_cuts.hpp"

#include <random>

using namespace baton;
using namespace baton::gateway;
using namespace baton::test;

namespace {

struct call_row {
  std::string text;
  std::string wanted;
};

const call_row hermes_rows[] = {
    {"Hello.\n", "'Hello.\n'"},
    {"", "''"},
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}\n</tool_call>",
     "'' 0:f{\"a\": 1.0}"},
    {"I look.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n", "'I look.' 0:f{}"},
    {"<tool_call>\n{\"arguments\": {\"x\": \"</tool_call> }\\\"\"}, \"name\": \"f\"}\n</tool_call>"
     "\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call> done",
     "' done' 0:f{\"x\": \"</tool_call> }\\\"\"} 1:get_weather{}"},
    // A list in one mark (SmolLM 2), without an end mark.
    {"<tool_call>[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"f\",\"arguments\":{\"b\":2}}]</"
     "tool_call>",
     "'' 0:f{} 1:f{\"b\": 2}"},
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n", "'' 0:f{}"},
    {"a <tool_cal", "'a <tool_cal'"},
    {"a <<tool_call>x", "'a <<tool_call>x'"},
    // None of these is a call: all of it is text.
    {"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
     "'<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>'"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call>",
     "'<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call>'"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {}} and</tool_call>",
     "'<tool_call>{\"name\": \"f\", \"arguments\": {}} and</tool_call>'"},
    {" <tool_call> {\"name\": \"f\", \"argum", "' <tool_call> {\"name\": \"f\", \"argum'"},
    {"<tool_call>[]</tool_call>", "'<tool_call>[]</tool_call>'"},
    {"<tool_call>{\"a\": [}</tool_call>", "'<tool_call>{\"a\": [}</tool_call>'"},
    // A call after a malformed one.
    {"<tool_call>{broken <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
     "'<tool_call>{broken' 0:f{}"},
    {"<tool_call>{\"name\":<tool_call>{\"name\":\"f\",\"arguments\":{}}",
     "'<tool_call>{\"name\":' 0:f{}"},
};

const call_row llama_rows[] = {
    {"Hello {\"name\": \"f\", \"parameters\": {}}",
     "'Hello {\"name\": \"f\", \"parameters\": {}}'"},
    {"{\"name\": \"f\", \"parameters\": {\"a\": [1, 2]}}", "'' 0:f{\"a\": [1, 2]}"},
    {"<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "'' 0:f{}"},
    {" \n{\"name\": \"f\", \"arguments\": {}}; {\"name\": \"f\", \"parameters\": {\"b\": true}}\n",
     "'' 0:f{} 1:f{\"b\": true}"},
    {"{\"name\": \"f\", \"parameters\": {}} That.", "' That.' 0:f{}"},
    {"{\"name\": \"f\", \"parameters\": {}}; no", "'; no' 0:f{}"},
    {"{\"colour\": \"red\"}", "'{\"colour\": \"red\"}'"},
    {"<|python_tag|>import os", "'<|python_tag|>import os'"},
    {"<|python", "'<|python'"},
    {"  ", "'  '"},
};

const call_row mistral_rows[] = {
    {"[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"get_weather\", \"arguments\": {\"a\": "
     "null}}]",
     "'' 0:f{} 1:get_weather{\"a\": null}"},
    {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]\n", "'' 0:f{}"},
    {"[1, 2]", "'[1, 2]'"},
    {"[TOOL_CALLS]", "'[TOOL_CALLS]'"},
    {"[", "'['"},
    {"A list: [{\"name\": \"f\", \"arguments\": {}}]",
     "'A list: [{\"name\": \"f\", \"arguments\": {}}]'"},
    {"[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
     "'[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]'"},
};

// As Qwen 2.5 Coder writes them under any template: accepted in every format.
const call_row fenced_rows[] = {
    {"```json\n{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Paris\"\n  "
     "}\n}\n```",
     "'' 0:get_weather{\"city\": \"Paris\"}"},
    {"I look.\n\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```\n", "'I look.' 0:f{}"},
    {"```\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}\n```", "'' 0:f{\"a\": 1}"},
    {"```tool_call\r\n{\"name\":\"f\",\"arguments\":{}}\r\n```", "'' 0:f{}"},
    {"```json\n[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"f\",\"arguments\":{\"b\":2}}]\n```",
     "'' 0:f{} 1:f{\"b\": 2}"},
    {"A\n```json\n{\"name\":\"f\",\"arguments\":{\"x\": \"```\"}}\n```\nB\n```json\n"
     "{\"name\":\"get_weather\",\"arguments\":{}}\n``` C",
     "'A\nB C' 0:f{\"x\": \"```\"} 1:get_weather{}"},
    // Complete except for its last fence.
    {"```json\n{\"name\": \"f\", \"arguments\": {}}\n", "'' 0:f{}"},
    {"```json\n{\"name\": \"f\", \"arguments\": {}}``", "'' 0:f{}"},
    // A block of another kind first, whose end starts no call.
    {"```python\nf()\n```\n{\"name\":\"f\",\"arguments\":{}}\n```json\n{\"name\":\"f\","
     "\"arguments\":{}}\n```",
     "'```python\nf()\n```\n{\"name\":\"f\",\"arguments\":{}}' 0:f{}"},
};

// None of these calls a tool of the request: all of it is text.
const char* const written_blocks[] = {
    "```json\n{\"city\": \"Paris\"}\n```\n",
    "```json\n{\"name\": \"other\", \"arguments\": {}}\n```",
    "```json\n{\"name\": \"f\", \"arguments\": []}\n```",
    "```json\n{\"name\": \"f\"}\n```",
    "```json\n{\"name\": \"f\", \"arguments\": {}}\n{\"more\": 1}\n```",
    "```json\n{\"name\": \"f\", \"arguments\": {}} // so\n```",
    "```json\n// so\n{\"name\": \"f\", \"arguments\": {}}\n```",
    "```jsonl\n{\"name\": \"f\", \"arguments\": {}}\n```",
    "```python\n{\"name\": \"f\", \"arguments\": {}}\n```",
    "As ```json\n{\"name\": \"f\", \"arguments\": {}}\n```",
    "```json {\"name\": \"f\", \"arguments\": {}}\n```",
    "```json\n{\"name\": \"f\", \"argum",
    "```json\n",
    "```js",
    "``",
    "a\n``` \nb\n```\n",
    "```\n```\n```json\n[]\n```",
    "```\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```",
};

} // namespace

TEST_CASE("a fenced block with a call of a known tool is read as a call in every format") {
  for (const auto format : {call_format::hermes, call_format::llama3, call_format::mistral}) {
    CAPTURE(static_cast<int>(format));
    for (const auto& [text, wanted] : fenced_rows) {
      CAPTURE(text);
      CHECK(read_calls(reading(format), text) == wanted);
    }
    for (const std::string text : written_blocks) {
      CAPTURE(text);
      CHECK(read_calls(reading(format), text) == "'" + text + "'");
    }
  }
  // Under the grammar of calls it is not a call: its arguments would not follow the schema.
  const std::string one = "```json\n{\"name\": \"f\", \"arguments\": {}}\n```";
  CHECK(read_calls(reading(call_format::hermes, true), one) == "'" + one + "'");
}

TEST_CASE("calls are read from an answer in any pieces, and the rest is text") {
  for (const auto& [text, wanted] : hermes_rows) {
    CAPTURE(text);
    CHECK(read_calls(reading(call_format::hermes), text) == wanted);
  }
  for (const auto& [text, wanted] : llama_rows) {
    CAPTURE(text);
    CHECK(read_calls(reading(call_format::llama3), text) == wanted);
  }
  for (const auto& [text, wanted] : mistral_rows) {
    CAPTURE(text);
    CHECK(read_calls(reading(call_format::mistral), text) == wanted);
  }
}

TEST_CASE("under the grammar arguments are streamed as drawn, also when they are cut short") {
  const std::string one =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x}\"}}\n</tool_call>";
  const auto how = reading(call_format::hermes, true);
  CHECK(read_calls(how, one) == "'' 0:f{\"a\": \"x}\"}");
  CHECK(read_calls(how, one + "\n" + one) == "'' 0:f{\"a\": \"x}\"} 1:f{\"a\": \"x}\"}");
  CHECK(read_calls(how, "So:\n" + one) == "'So:' 0:f{\"a\": \"x}\"}");
  CHECK(read_calls(how, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x") ==
        "'' 0:f{\"a\": \"x");
  CHECK(read_calls(how, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool") == "'' 0:f{}");
  CHECK(read_calls(how, "<tool_call>\n{\"name\": \"f\", \"arg") ==
        "'<tool_call>\n{\"name\": \"f\", \"arg'");
  const std::string other = "<tool_call>\r\n{\"name\": \"f\", \"arguments\": {}}\"";
  CHECK(read_calls(how, other) == "'" + other + "'");
  call_parser parser(how);
  call_delta d;
  parser.add("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a", d);
  CHECK(shown(d) == "'' 0:f{\"a");
  d = {};
  parser.add("bc", d);
  CHECK(shown(d) == "'' 0:bc");

  CHECK(read_calls(reading(call_format::llama3, true),
                   "{\"name\": \"f\", \"parameters\": {\"a\": {}}}") == "'' 0:f{\"a\": {}}");
  const auto mistral = reading(call_format::mistral, true);
  CHECK(
      read_calls(
          mistral,
          "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"a\": 1}}]") ==
      "'' 0:f{} 1:f{\"a\": 1}");
  CHECK(read_calls(mistral, "[{\"name\": \"f\", \"arguments\": {}}, {\"na") == "'{\"na' 0:f{}");
  CHECK(read_calls(mistral, "Hello [x]") == "'Hello [x]'");
}

TEST_CASE("random answers lose no text and give the same result for any pieces") {
  const std::vector<std::string> pieces{"<tool_call>",
                                        "</tool_call>",
                                        "\n",
                                        " ",
                                        "{",
                                        "}",
                                        "\"",
                                        "[",
                                        "]",
                                        ",",
                                        ";",
                                        "a",
                                        "<",
                                        "{\"name\": \"f\", \"arguments\": {}}",
                                        "{\"name\": \"f\", \"parameters\": {\"b\": 1}}",
                                        "<|python_tag|>",
                                        "[TOOL_CALLS]",
                                        "\"name\": ",
                                        "```",
                                        "\n```json\n",
                                        "\n```\n",
                                        "`",
                                        "json\n",
                                        "\\"};
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (auto count = random() % 12; count > 0; --count) {
      text += pieces[random() % pieces.size()];
    }
    CAPTURE(text);
    const auto how = reading(static_cast<call_format>(random() % 3), random() % 2 == 0);
    const auto whole = read_cut(how, text, {});
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (random() % 3 == 0) {
        ends.push_back(i);
      }
    }
    CHECK(read_cut(how, text, ends) == whole);
    if (whole.find(" 0:") == std::string::npos) { // no call: every byte is there
      CHECK(whole == "'" + text + "'");
    }
  }
}
