// A chat's wishes about the model's reasoning, and the reasoning in answers.
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

openai_generate asked_chat(std::string_view fields) {
  auto parsed =
      parse_generation(openai_api::chat,
                       fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}{}}})",
                                   fields.empty() ? "" : ",", fields),
                       testing::default_limits);
  REQUIRE_MESSAGE(parsed, parsed.error().message);
  return *std::move(parsed);
}

model_card card_that(reasoning_format format) {
  model_card card;
  card.name = "m";
  card.reasoning = format;
  return card;
}

chunk thought_chunk(std::uint32_t index, std::string text, finish how = finish::none) {
  chunk c;
  c.ticket = ticket_id{9};
  c.index = c.output_tokens = index;
  c.count = 1;
  c.text = std::move(text);
  c.finish = how;
  c.prompt_tokens = 5;
  c.reasoning = reasoning_format::think;
  c.begins_in_reasoning = true;
  return c;
}

std::vector<chunk> thought_answer() {
  return {thought_chunk(1, "Two"), thought_chunk(2, " and"), thought_chunk(3, "</think>"),
          thought_chunk(4, "\n\nFour"), thought_chunk(5, ".", finish::stop)};
}

reply_shape thinking_shape() {
  reply_shape s;
  s.model = "m";
  s.reads_reasoning = true;
  return s;
}

} // namespace

TEST_CASE("a request turns reasoning on and off, and bounds it") {
  struct row {
    const char* fields;
    const char* kwargs;
    std::int32_t tokens_max;
  };
  const row rows[] = {
      {"", "", -1},
      {R"("reasoning_effort":"none")", R"({"enable_thinking":false,"thinking":false})", -1},
      {R"("reasoning_effort":"low")",
       R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"low"})", -1},
      // The client's own values for the template are kept.
      {R"("reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false})",
       R"({"enable_thinking":false,"thinking":true,"reasoning_effort":"high"})", -1},
      {R"("thinking_token_budget":100)", "", 100},
      {R"("thinking_token_budget":0,"reasoning_effort":null)", "", 0},
  };
  for (const auto& r : rows) {
    CAPTURE(r.fields);
    auto call = asked_chat(r.fields);
    REQUIRE(settle_reasoning(call, card_that(reasoning_format::think)));
    const auto& kwargs = call.request.template_options.kwargs;
    CHECK((kwargs.empty() ? json() : json::parse(kwargs)) ==
          (*r.kwargs == 0 ? json() : json::parse(r.kwargs)));
    const auto& bound = call.request.terms.sampling.constraint;
    CHECK((bound ? bound->reasoning_tokens_max : -1) == r.tokens_max);
    CHECK((!bound || bound->kind == constraint_kind::free));
    CHECK(call.shape.is_parsed());
  }
  auto both = asked_chat(R"("thinking_token_budget":7,"response_format":{"type":"json_object"})");
  REQUIRE(settle_reasoning(both, card_that(reasoning_format::think)));
  CHECK(both.request.terms.sampling.constraint->kind == constraint_kind::json_object);
  CHECK(both.request.terms.sampling.constraint->reasoning_tokens_max == 7);
}

TEST_CASE("a bound of the reasoning holds beside tools") {
  const std::string tools =
      R"("thinking_token_budget":7,"tools":[{"type":"function","function":{"name":"f"}}])";
  auto card = card_that(reasoning_format::think);
  for (const auto& [choice, kind] :
       {std::pair(R"(,"tool_choice":"auto")", constraint_kind::free),
        {R"(,"tool_choice":"required")", constraint_kind::calls},
        {R"(,"parallel_tool_calls":false)", constraint_kind::calls},
        {R"(,"response_format":{"type":"json_object"})", constraint_kind::calls}}) {
    CAPTURE(choice);
    auto call = asked_chat(tools + choice);
    const auto ok = settle_answer(call, card);
    REQUIRE_MESSAGE(ok, ok.error().message);
    const auto& bound = call.request.terms.sampling.constraint;
    REQUIRE(bound);
    CHECK(bound->kind == kind);
    CHECK(bound->reasoning_tokens_max == 7);
    CHECK(call.request.terms.stop.shows_call_marks);
  }
}

TEST_CASE("a model that does not reason refuses what asks it to, by the field's name") {
  for (const auto& [fields, param] : {std::pair(R"("reasoning_effort":"low")", "reasoning_effort"),
                                      {R"("thinking_token_budget":1)", "thinking_token_budget"}}) {
    auto call = asked_chat(fields);
    const auto ok = settle_reasoning(call, card_that(reasoning_format::none));
    REQUIRE_FALSE(ok);
    CHECK(ok.error().code == errc::unsupported_parameter);
    CHECK(ok.error().param == param);
  }
  for (const auto* fields : {"", R"("reasoning_effort":"none")", R"("include_reasoning":false)"}) {
    auto call = asked_chat(fields);
    CHECK(settle_reasoning(call, card_that(reasoning_format::none)));
    CHECK_FALSE(call.shape.is_parsed());
    CHECK(call.request.template_options.kwargs.empty());
  }
  const auto wrong = parse_generation(
      openai_api::chat, R"({"messages":[{"role":"user","content":"x"}],"reasoning_effort":"lots"})",
      testing::default_limits);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().param == "reasoning_effort");
}

TEST_CASE("the reasoning of an earlier turn reaches the template") {
  const auto parsed =
      parse_generation(openai_api::chat,
                       R"({"messages":[{"role":"user","content":"x","reasoning":"no"},
          {"role":"assistant","content":"y","reasoning_content":"so"},
          {"role":"assistant","content":"z","reasoning":"thus"}]})",
                       testing::default_limits);
  REQUIRE_MESSAGE(parsed, parsed.error().message);
  const auto& chat = std::get<chat_prompt>(parsed->request.input);
  CHECK(chat[0].reasoning.empty());
  CHECK(chat[1].reasoning == "so");
  CHECK(chat[2].reasoning == "thus");
}

TEST_CASE("a whole answer has its reasoning, and counts its tokens") {
  for (const bool includes : {true, false}) {
    auto shape = thinking_shape();
    shape.includes_reasoning = includes;
    openai_unary writer(shape);
    for (auto& c : thought_answer()) {
      writer.add(std::move(c));
    }
    REQUIRE(writer.is_complete());
    const auto body = json::parse(
        writer.body(reply_identity{.ticket = ticket_id{9}, .created = 0, .fingerprint = "f"}));
    const auto& message = body["choices"][0]["message"];
    CHECK(message["content"] == "Four.");
    CHECK(message.contains("reasoning_content") == includes);
    if (includes) {
      CHECK(message["reasoning_content"] == "Two and");
      CHECK(message["reasoning"] == "Two and");
    }
    CHECK(body["usage"]["completion_tokens"] == 5);
    CHECK(body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3);
  }
}

TEST_CASE("a stream has the same, and goes on where it broke") {
  const auto shape = thinking_shape();
  const reply_identity who{.ticket = ticket_id{9}, .created = 0, .fingerprint = "f"};
  openai_stream whole(shape, who);
  std::string text;
  std::vector<std::string> pieces;
  for (const auto& c : thought_answer()) {
    std::string out;
    whole.add(c, out);
    pieces.push_back(out);
    text += out;
  }
  CHECK(text.find(R"("delta":{"reasoning_content":"Two","reasoning":"Two"})") != std::string::npos);
  CHECK(text.find(R"("delta":{"content":"Four"})") != std::string::npos);
  CHECK(text.find("think>") == std::string::npos);
  for (std::size_t had = 1; had + 1 < pieces.size(); ++had) {
    CAPTURE(had);
    std::string id;
    for (std::size_t i = 0; i < had; ++i) {
      if (const auto at = pieces[i].rfind("id: "); at != std::string::npos) {
        id = pieces[i].substr(at + 4, pieces[i].find('\n', at) - at - 4);
      }
    }
    const auto position = parse_position(id, 1);
    REQUIRE(position);
    openai_stream resumed(shape, who, *position);
    std::string rest;
    for (const auto& c : thought_answer()) {
      resumed.add(c, rest);
    }
    std::string expected;
    for (std::size_t i = had; i < pieces.size(); ++i) {
      expected += pieces[i];
    }
    // Ids count the text from the place on, so only the data must be the same.
    const auto data_of = [](const std::string& events) {
      std::string out;
      for (std::size_t at = 0; (at = events.find("data: ", at)) != std::string::npos; ++at) {
        out += events.substr(at, events.find('\n', at) - at);
      }
      return out;
    };
    CHECK(data_of(rest) == data_of(expected));
  }
}
