// Goal: a template gets the variables of transformers' apply_chat_template. Method: its own
// prompts, recorded by tests/data/template/make_apply_goldens.py, for requests as clients write
// them. tests/system/cluster/models/test_chat_template.py checks the same on a cluster.
#include "runtime/text/bpe/vocabulary_checkpoint.hpp"
#include "runtime/text/template/conversation.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "tests/unit/template/template_data.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::test;
using json = nlohmann::ordered_json;

namespace {

std::string dumped(const json& from, const char* name) {
  return from.contains(name) ? from.at(name).dump() : std::string();
}

chat_prompt chat_of(const json& messages) {
  chat_prompt chat;
  for (const auto& m : messages)
    chat.push_back(
        {m.at("role"), m.at("content"), "", dumped(m, "tool_calls"), m.value("tool_call_id", "")});
  return chat;
}

template_options options_of(const json& fields) {
  return {dumped(fields, "chat_template_kwargs"), dumped(fields, "documents"),
          fields.value("continue_final_message", false)};
}

// The vocabulary of the model directory that apply.json's ids belong to.
const text::vocabulary& vocabulary() {
  static const auto words =
      text::vocabulary_from_directory(BATON_SOURCE_DIR "/tests/data/model/checkpoint");
  REQUIRE_MESSAGE(words, words.error().message);
  return *words;
}

const text::tokenizer& tokenizer() {
  static const auto made = text::tokenizer::create(vocabulary());
  REQUIRE_MESSAGE(made, made.error().message);
  return *made;
}

result<text::rendered> rendered_of(const std::string& source, const json& fields,
                                   const template_options& options) {
  const auto parsed = text::chat_template::parse(source);
  REQUIRE_MESSAGE(parsed, parsed.error().message);
  text::template_input input;
  input.eos_token = tokenizer().piece(tokenizer().eos().value());
  input.named_tokens = vocabulary().named_tokens;
  input.add_generation_prompt =
      fields.value("add_generation_prompt", !fields.value("continue_final_message", false));
  if (auto ok = text::put_conversation(chat_of(fields.at("messages")), dumped(fields, "tools"),
                                       text::call_style_of(source), input);
      !ok)
    return ok.error();
  if (auto ok = text::put_options(options, *parsed, input); !ok)
    return ok.error();
  return parsed->render(input);
}

result<std::string> prompt_of(const std::string& source, const json& fields,
                              const template_options& options) {
  const auto prompt = rendered_of(source, fields, options);
  return prompt ? result<std::string>(prompt->text()) : prompt.error();
}

std::string shown(const result<std::string>& prompt) {
  return prompt ? *prompt : "error: " + prompt.error().message;
}

const json ask = json::parse(R"({"messages":[{"role":"user","content":"Hi"}]})");

error refusal_of(const std::string& source, const json& fields, const template_options& options) {
  const auto prompt = prompt_of(source, fields, options);
  REQUIRE_FALSE(prompt.has_value());
  return prompt.error();
}

} // namespace

TEST_CASE("a request's template variables give the prompt of transformers") {
  const auto rows = json::parse(read_data("apply.json"));
  REQUIRE(rows.size() >= 16);
  for (const auto& row : rows) {
    const auto& fields = row.at("fields");
    CAPTURE(fields.dump());
    const auto source = read_data("apply/" + row.at("template").get<std::string>() + ".jinja");
    const auto prompt = rendered_of(source, fields, options_of(fields));
    if (row.contains("text")) {
      CHECK(shown(prompt_of(source, fields, options_of(fields))) ==
            row.at("text").get<std::string>());
      REQUIRE(prompt);
      text::encode_scratch scratch;
      const auto ids = tokenizer().encode(prompt->segments, scratch);
      REQUIRE(ids);
      CHECK(*ids == row.at("ids").get<std::vector<token_id>>());
    } else {
      REQUIRE_FALSE(prompt.has_value());
      CHECK(prompt.error().param == row.at("error").get<std::string>());
    }
  }
}

TEST_CASE("a template prints the time of its request, however often it is rendered") {
  template_options options;
  const std::string source = "{{ strftime_now('%d %b %Y %H:%M') if strftime_now is defined else "
                             "'26 Jul 2024' }}";
  CHECK(shown(prompt_of(source, ask, options)) == "26 Jul 2024");
  options.local_seconds = 1'772'530'200; // 2026-03-03 09:30:00
  CHECK(shown(prompt_of(source, ask, options)) == "03 Mar 2026 09:30");
  CHECK(shown(prompt_of(source, ask, options)) == "03 Mar 2026 09:30");
  options.local_seconds = INT64_MAX;
  CHECK(refusal_of(source, ask, options).code == errc::template_failed);
}

TEST_CASE("invalid template variables are rejected under the name of their field") {
  const std::string source = "{{ messages }}";
  const auto documents = refusal_of(source, ask, {"", R"([{"text":"a"}])"});
  CHECK(documents.code == errc::unsupported_parameter);
  CHECK(documents.param == "documents");
  CHECK(refusal_of("{{ documents }}", ask, {"", "{}"}).param == "documents");
  for (const char* name : {"messages", "tools", "documents", "bos_token", "eos_token",
                           "add_generation_prompt", "continue_final_message", "chat_template"}) {
    CAPTURE(name);
    const auto refused = refusal_of(source, ask, {json{{name, "x"}}.dump(), ""});
    CHECK(refused.code == errc::invalid_value);
    CHECK(refused.param == "chat_template_kwargs");
  }
  CHECK(refusal_of(source, ask, {"[]", ""}).param == "chat_template_kwargs");
  CHECK(refusal_of(source, json::parse(R"({"messages":[]})"), {"", "", true}).param ==
        "continue_final_message");
}

TEST_CASE("template variables of a request yield no special token") {
  const auto parsed = text::chat_template::parse("{{ a.b[0] }}{{ documents[0].text }}<s>");
  text::template_input input;
  REQUIRE(text::put_options({R"({"a":{"b":["<s>"]}})", R"([{"text":"</s>"}])"}, *parsed, input));
  const auto prompt = parsed->render(input);
  REQUIRE(prompt);
  REQUIRE(prompt->segments.size() == 2);
  CHECK(prompt->segments[0].text == "<s></s>");
  CHECK_FALSE(prompt->segments[0].special_allowed);
  CHECK(prompt->segments[1].special_allowed);
}
