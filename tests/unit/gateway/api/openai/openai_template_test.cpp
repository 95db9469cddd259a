// Template parameters of chat requests and /tokenize, and the metadata of a model whose template
// cannot be used.
#include "gateway/api/openai/request/embedding_request.hpp"
#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/request_check.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;

namespace {

std::string chat_body_with(std::string_view fields) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}{}}})",
                     fields.empty() ? "" : ",", fields);
}

struct template_row {
  const char* fields;
  template_options options;
  bool adds_generation_prompt;
};

} // namespace

TEST_CASE("template parameters of a request reach the template as the client wrote them") {
  const template_row rows[] = {
      {"", {}, true},
      {R"("add_generation_prompt":false)", {}, false},
      {R"("chat_template_kwargs":null,"documents":null,"continue_final_message":null)", {}, true},
      {R"("chat_template_kwargs":{},"documents":[])", {}, true},
      {R"("chat_template_kwargs": {"z": 1, "a" : [true]} )", {R"({"z": 1, "a" : [true]})"}, true},
      {R"("documents":[{"title":"t","text":"x"}, {}])",
       {"", R"([{"title":"t","text":"x"}, {}])"},
       true},
      {R"("add_special_tokens":false)", {}, true},
      {R"("add_special_tokens":true)",
       {.special = special_tokens::added},
       true}, // BOS before the template's text
      {R"("continue_final_message":true)", {"", "", true}, false},
      {R"("continue_final_message":true,"add_generation_prompt":false)", {"", "", true}, false},
  };
  for (const auto& r : rows) {
    CAPTURE(r.fields);
    const auto chat =
        parse_generation(openai_api::chat, chat_body_with(r.fields), testing::default_limits);
    REQUIRE(chat);
    CHECK(chat->request.template_options == r.options);
    CHECK(chat->add_generation_prompt == r.adds_generation_prompt);
    const auto question = parse_tokenize(chat_body_with(r.fields), testing::default_limits);
    REQUIRE(question);
    CHECK(question->template_options == r.options);
    CHECK(question->add_generation_prompt == r.adds_generation_prompt);
  }
  const auto asked =
      parse_tokenize(chat_body_with(R"("tools":[{"type":"function","function":{"name":"f"}}])"),
                     testing::default_limits);
  REQUIRE(asked);
  CHECK(asked->tools == R"([{"type":"function","function":{"name":"f"}}])");
}

TEST_CASE("a text gets special tokens unless its client disables them") {
  const std::pair<const char*, special_tokens> rows[] = {
      {"{}", special_tokens::usual},
      {R"({"add_special_tokens":null})", special_tokens::usual},
      {R"({"add_special_tokens":true})", special_tokens::usual},
      {R"({"add_special_tokens":false})", special_tokens::omitted},
  };
  for (const auto& [fields, expected] : rows) {
    CAPTURE(fields);
    const auto body_of = [&](const char* input) {
      auto body = nlohmann::json::parse(fields);
      body["model"] = "m";
      body[input] = nlohmann::json::array({"a", "b"});
      return body;
    };
    const auto call = parse_generation(openai_api::completions, body_of("prompt").dump(),
                                       testing::default_limits);
    REQUIRE(call);
    CHECK(call->request.template_options.special == expected);
    REQUIRE(call->further.size() == 1);
    CHECK(call->further[0].template_options.special == expected);
    auto question = body_of("prompt");
    question["prompt"] = "a";
    const auto ids = parse_tokenize(question.dump(), testing::default_limits);
    REQUIRE(ids);
    CHECK(ids->template_options.special == expected);
    const auto vectors = parse_embeddings(body_of("input").dump(), testing::default_limits);
    REQUIRE(vectors);
    CHECK(vectors->requests.at(1).template_options.special == expected);
  }
}

TEST_CASE("an error in it is refused by its name") {
  const std::pair<const char*, const char*> rows[] = {
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("chat_template_kwargs":"{}")", "chat_template_kwargs"},
      {R"("documents":{})", "documents"},
      {R"("documents":["a"])", "documents"},
      {R"("continue_final_message":1)", "continue_final_message"},
      {R"("add_special_tokens":"no")", "add_special_tokens"},
      {R"("continue_final_message":true,"add_generation_prompt":true)", "continue_final_message"},
      {R"("chat_template":"{{ messages }}")", "chat_template"},
  };
  for (const auto& [fields, param] : rows) {
    CAPTURE(fields);
    const auto chat =
        parse_generation(openai_api::chat, chat_body_with(fields), testing::default_limits);
    REQUIRE_FALSE(chat);
    CHECK(chat.error().param == param);
    const auto question = parse_tokenize(chat_body_with(fields), testing::default_limits);
    REQUIRE_FALSE(question);
    CHECK(question.error().param == param);
  }
}

TEST_CASE("an unusable template is distinguished from a missing one") {
  generate request;
  request.input = chat_prompt{{"user", "x", ""}};
  model_card card;
  card.name = "m";
  const auto none = check_against_model(request, card);
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "the model 'm' has no chat template: use /v1/completions");
  card.chat_template_failure = "the tag 'do' is not supported (template line 7)";
  const auto broken = check_against_model(request, card);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().code == errc::template_failed);
  CHECK(broken.error().message == "the chat template of the model 'm' cannot be used: the tag 'do' "
                                  "is not supported (template line 7): use /v1/completions");
  card.has_chat_template = true;
  CHECK(check_against_model(request, card));
}
