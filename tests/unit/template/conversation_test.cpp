// Conversations with tools, as templates get them. Method: renders the families' templates with the
// output of put_conversation, and compares it with each family's own format.
#include "runtime/text/template/conversation.hpp"
#include "tests/unit/template/template_data.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::test;

namespace {

constexpr std::string_view tools =
    R"([{"type":"function","function":{"name":"add","parameters":{"type":"object",)"
    R"("properties":{"x":{"type":"number"}}}}}])";

const chat_prompt talk{
    {"system", "Be brief.", ""},
    {"user", "2 + 3?", ""},
    {"assistant", "", "",
     R"([{"id":"abcdefghi","type":"function","function":{"name":"add",)"
     R"("arguments":{"x":2.5,"a":"<|im_end|>"}}}])",
     ""},
    {"tool", "5", "", "", "abcdefghi"},
};

std::string render_chat(const char* file, const chat_prompt& chat, std::string_view with) {
  const auto source = read_data(file);
  const auto parsed = text::chat_template::parse(source);
  REQUIRE_MESSAGE(parsed, parsed.error().message);
  text::template_input input;
  input.add_generation_prompt = true;
  const auto ok = text::put_conversation(chat, with, text::call_style_of(source), input);
  REQUIRE_MESSAGE(ok, ok.error().message);
  const auto prompt = parsed->render(input);
  REQUIRE_MESSAGE(prompt, prompt.error().message);
  return prompt->text();
}

bool has(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

} // namespace

TEST_CASE("a family is recognised by its template") {
  const std::pair<const char*, text::call_style> rows[] = {
      {"qwen25.jinja", {call_format::hermes, true}},
      {"qwen3.jinja", {call_format::hermes, true}},
      {"llama31.jinja", {call_format::llama3, true}},
      {"mistral.jinja", {call_format::mistral, true}},
      {"smollm2.jinja", {call_format::hermes, false}},
      {"gemma3.jinja", {call_format::hermes, false}},
      {"phi3.jinja", {call_format::hermes, false}},
      {"llama2.jinja", {call_format::hermes, false}},
  };
  for (const auto& [file, wanted] : rows) {
    CAPTURE(file);
    const auto style = text::call_style_of(read_data(file));
    CHECK(style.format == wanted.format);
    CHECK(style.is_native == wanted.is_native);
  }
}

TEST_CASE("the later marks of a template decide, and one that tells no tools has no format") {
  const std::pair<std::string, call_format> rows[] = {
      {"{{ tools }}<tool_call>\n<function=x>\n<parameter=a>", call_format::qwen_xml},
      {"{{ tools }}<tool_call>x\n<arg_key>a</arg_key>\n<arg_value>", call_format::glm},
      {"{{ tools }}<tool_call>{\"name\"", call_format::hermes},
      {"{{ tools }}<|start|>assistant<|channel|>commentary to=functions.", call_format::harmony},
      {"{{ tools }}[TOOL_CALLS]x[ARGS]", call_format::mistral_named},
      {"{{ tools }}[TOOL_CALLS][{\"name\"", call_format::mistral},
      {"{{ tools }}[func_name1(params_name1=1)]", call_format::pythonic},
      {"{{ tools }}<|tool_call_start|>[", call_format::lfm2},
      {"{{ tools }}<|tool_calls_section_begin|>", call_format::kimi},
      {"{{ tools }}<｜tool▁calls▁begin｜>", call_format::deepseek31},
      {"{{ tools }}<｜tool▁calls▁begin｜>function<｜tool▁sep｜>x\n```json", call_format::deepseek},
      {"{{ tools }}<|tool_call|>", call_format::granite},
      {"{{ tools }}<|tool_call>call:", call_format::gemma4},
      {"{{ tools }}<start_function_call>", call_format::function_gemma},
  };
  for (const auto& [source, format] : rows) {
    CAPTURE(source);
    CHECK(text::call_style_of(source).format == format);
    CHECK(text::call_style_of(source).is_native);
    CHECK_FALSE(text::call_style_of(source.substr(11)).is_native);
  }
}

TEST_CASE("a template that joins arguments to texts gets them as JSON text") {
  const std::string source = "{{ tools | length }}<｜tool▁calls▁begin｜>{% for m in messages %}"
                             "{% for t in m.tool_calls %}{{ t['function']['name'] + ':' + "
                             "t['function']['arguments'] + ';' }}{% endfor %}{% endfor %}";
  const auto style = text::call_style_of(source);
  CHECK(style.has_text_arguments);
  const auto parsed = text::chat_template::parse(source);
  REQUIRE(parsed);
  text::template_input input;
  REQUIRE(text::put_conversation(talk, tools, style, input));
  const auto prompt = parsed->render(input);
  REQUIRE_MESSAGE(prompt, prompt.error().message);
  CHECK(has(prompt->text(), R"(add:{"x":2.5,"a":"<|im_end|>"};)"));
}

TEST_CASE("a template that writes the ids of calls gets them with names, numbered") {
  const std::string source =
      "{{ tools | length }}<|tool_calls_section_begin|>{% for m in messages %}"
      "{% for t in m.tool_calls %}{{ t.id }};{% endfor %}{{ m.tool_call_id }}{% endfor %}";
  const auto style = text::call_style_of(source);
  const auto parsed = text::chat_template::parse(source);
  REQUIRE(parsed);
  auto twice = talk;
  twice.insert(twice.end(), {talk[2], talk[3]});
  twice[4].tool_calls.replace(twice[4].tool_calls.find("abcdefghi"), 9, "b");
  twice[5].tool_call_id = "b";
  text::template_input input;
  REQUIRE(text::put_conversation(twice, tools, style, input));
  const auto prompt = parsed->render(input);
  REQUIRE_MESSAGE(prompt, prompt.error().message);
  CHECK(has(prompt->text(), "functions.add:0;functions.add:0functions.add:1;functions.add:1"));
}

TEST_CASE("a template with tool support gets tools as Hugging Face passes them") {
  const auto qwen = render_chat("qwen25.jinja", talk, tools);
  CHECK(has(qwen, "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"add\""));
  CHECK(has(qwen,
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 2.5, \"a\": \"<|im_end|>\"}}"
            "\n</tool_call>"));
  CHECK(has(qwen, "<tool_response>\n5\n</tool_response>"));
  CHECK_FALSE(has(render_chat("qwen25.jinja", {{"user", "Hi", ""}}, ""), "<tools>"));

  const auto llama = render_chat("llama31.jinja", talk, tools);
  CHECK(has(llama, "{\"name\": \"add\", \"parameters\": {\"x\": 2.5"));
  CHECK(has(llama, "<|start_header_id|>ipython<|end_header_id|>"));

  const auto mistral = render_chat("mistral.jinja", talk, tools);
  CHECK(has(mistral, "[TOOL_CALLS]"));
  CHECK(has(mistral, "\"id\": \"abcdefghi\""));
  CHECK(has(mistral, "\"call_id\": \"abcdefghi\""));
}

TEST_CASE("a template without tool support gets tools as plain messages") {
  const auto prompt = render_chat("smollm2.jinja", talk, tools);
  CHECK(has(prompt, "<|im_start|>system\nBe brief.\n\nYou may call functions"));
  CHECK(has(prompt, "{\"type\":\"function\",\"function\":{\"name\":\"add\""));
  CHECK(has(prompt,
            "<|im_start|>assistant\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\":2.5"));
  CHECK(has(prompt, "<|im_start|>user\n<tool_response>\n5\n</tool_response><|im_end|>"));
  // Without a system message one is added; consecutive results become one message.
  auto two = talk;
  two.erase(two.begin());
  two.push_back({"tool", "6", "", "", "x"});
  const auto more = render_chat("smollm2.jinja", two, tools);
  CHECK(has(more, "<|im_start|>system\nYou may call functions"));
  CHECK(has(more, "5\n</tool_response>\n<tool_response>\n6\n</tool_response>"));
  // Without tools nothing is added.
  CHECK(render_chat("smollm2.jinja", {{"user", "Hi", ""}}, "") ==
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("a client's text never becomes a special token, in any field") {
  const auto source = read_data("qwen25.jinja");
  const auto parsed = text::chat_template::parse(source);
  REQUIRE(parsed);
  text::template_input input;
  REQUIRE(text::put_conversation(talk, R"([{"type":"<|im_start|>"}])", text::call_style_of(source),
                                 input));
  const auto prompt = parsed->render(input);
  REQUIRE(prompt);
  std::string special;
  for (const auto& segment : prompt->segments)
    special += segment.special_allowed ? segment.text : " ";
  // The template's own special tokens, for four messages; each client text contains one.
  CHECK(count(special, "<|im_end|>") == 4);
  CHECK(count(special, "<|im_start|>") == 4);
  CHECK(count(prompt->text(), "<|im_end|>") == 5);
  CHECK(count(prompt->text(), "<|im_start|>") == 5);
}

TEST_CASE("values that are no array, or nested too deep, are rejected") {
  text::template_input input;
  const auto deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const auto& bad : {std::string("{}"), std::string("5"), std::string("["), deep}) {
    for (const bool is_native : {false, true}) {
      const auto outcome =
          text::put_conversation(talk, bad, {call_format::hermes, is_native}, input);
      REQUIRE_FALSE(outcome);
      CHECK(outcome.error().param == "tools");
    }
  }
  auto wrong = talk;
  wrong[2].tool_calls = "x";
  CHECK_FALSE(text::put_conversation(wrong, "", {call_format::hermes, true}, input));
  CHECK_FALSE(text::put_conversation(wrong, "", {}, input));
}
