// Anthropic's bodies to typed requests: conversations, tools, every field, every refusal by name.
#include "gateway/api/anthropic/anthropic_request.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "gateway/request/json_reader.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace baton;
using namespace baton::gateway;

namespace {

// A body with these members after the model and the limit.
std::string anthropic_body(const std::string& members) {
  return R"({"model":"m","max_tokens":9,)" + members + "}";
}

std::string with_messages(const std::string& messages) {
  return anthropic_body(R"("messages":[)" + messages + "]");
}

std::string with_field(const std::string& field) {
  return anthropic_body(R"("messages":[{"role":"user","content":"hi"}],)" + field);
}

openai_generate message_of(const std::string& body) {
  auto r = parse_anthropic(body, testing::default_limits);
  REQUIRE_MESSAGE(r, body << ": " << (r ? "" : r.error().message));
  return *std::move(r);
}

error message_error(const std::string& body) {
  const auto r = parse_anthropic(body, testing::default_limits);
  REQUIRE_FALSE_MESSAGE(r, body);
  return r.error();
}

chat_prompt chat_of(const std::string& body) {
  return std::get<chat_prompt>(message_of(body).request.input);
}

constexpr const char* weather =
    R"("tools":[{"name":"f","description":"d",)"
    R"("input_schema":{"type":"object","properties":{"b":{},"a":{}}}}])";

} // namespace

TEST_CASE("a message of Anthropic's API becomes a chat") {
  const auto r = message_of(anthropic_body(
      R"("system":[{"type":"text","text":"be"},{"type":"text","text":"brief"}],)"
      R"("messages":[{"role":"user","content":"a"},{"role":"user","content":[)"
      R"({"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]},)"
      R"({"role":"assistant","content":[{"type":"text","text":"c","citations":[]}]},)"
      R"({"role":"system","content":[{"type":"text","text":"s"}]},)"
      R"({"role":"user","content":"d"}],)"
      R"("stop_sequences":["x","y"],"temperature":1,"top_p":0.5,"top_k":7,"stream":true,)"
      R"("metadata":{"user_id":"u"},"thinking":{"type":"disabled"},"service_tier":"auto")"));
  CHECK(std::get<chat_prompt>(r.request.input) == chat_prompt{{"system", "be\nbrief", {}},
                                                              {"user", "a\nb", {}},
                                                              {"assistant", "c", {}},
                                                              {"system", "s", {}},
                                                              {"user", "d", {}}});
  CHECK(r.request.model == "m");
  CHECK(r.shape.model == "m");
  CHECK(r.shape.is_stream);
  CHECK(r.add_generation_prompt);
  CHECK(r.request.terms.max_tokens_given);
  CHECK(r.request.terms.stop.max_tokens == 9);
  CHECK(r.request.terms.stop.stop_texts == std::vector<std::string>{"x", "y"});
  CHECK(r.request.terms.sampling.temperature == 1);
  CHECK(r.request.terms.sampling.top_p == 0.5F);
  CHECK(r.request.terms.sampling.top_k == 7);
  CHECK_FALSE(r.tools);
}

TEST_CASE("a model thinks if it is asked to, and its earlier thoughts are read") {
  const auto asked = [](const char* thinking) {
    return message_of(
        anthropic_body(std::string(R"("messages":[{"role":"user","content":"a"}])") + thinking));
  };
  CHECK(asked("").reasoning.is_on == false);
  CHECK(asked(R"(,"thinking":{"type":"disabled"})").reasoning.is_on == false);
  CHECK(asked(R"(,"thinking":{"type":"adaptive"})").reasoning.is_on == true);
  CHECK(asked(R"(,"thinking":{"type":"adaptive"})").reasoning.is_optional);
  CHECK_FALSE(asked(R"(,"thinking":{"type":"enabled"})").reasoning.is_optional);
  CHECK(asked(R"(,"output_config":{"effort":"low"})").reasoning.effort == "low");
  CHECK(asked(R"(,"output_config":{"effort":"max"})").reasoning.effort == "xhigh");
  CHECK(asked(R"(,"output_config":{"effort":"max"})").reasoning.is_on == false);
  const auto bounded =
      asked(R"(,"thinking":{"type":"enabled","budget_tokens":1024,"display":"omitted"})");
  CHECK(bounded.reasoning.is_on == true);
  CHECK(bounded.reasoning.tokens_max == 1024);
  CHECK_FALSE(bounded.shape.includes_reasoning);
  const auto chat = chat_of(anthropic_body(
      R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":[)"
      R"({"type":"thinking","thinking":"so","signature":""},{"type":"redacted_thinking",)"
      R"("data":"x"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}])"));
  CHECK(chat.at(1).reasoning == "so");
  CHECK(chat.at(1).content == "b");
}

TEST_CASE("a model that does not think answers unless thinking is asked of it") {
  model_card card;
  card.name = "m";
  const auto settled = [&](const std::string& more) {
    auto call = message_of(with_field(more));
    const auto done = settle_reasoning(call, card);
    return done ? std::string() : done.error().param;
  };
  CHECK(settled(R"("thinking":{"type":"adaptive"})").empty());
  CHECK(settled(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"high"})").empty());
  CHECK(settled(R"("thinking":{"type":"enabled","budget_tokens":9})") == "thinking");
  CHECK(settled(R"("output_config":{"effort":"low"})") == "output_config.effort");
  CHECK(settled(R"("thinking":{"type":"adaptive"},"output_config":{"effort":"max"})") ==
        "output_config.effort");
}

TEST_CASE("the schema of a format constrains the answer, with its members in order") {
  const char* format = R"({"type":"json_schema","schema":{"type":"object","properties":)"
                       R"({"b":{"type":"integer"},"a":{}}}})";
  const auto schema_of = [](const openai_generate& asked) {
    const auto& is = asked.request.terms.sampling.constraint;
    return is && is->kind == constraint_kind::json_schema ? is->text : std::string();
  };
  const auto expected = R"({"type":"object","properties":{"b":{"type":"integer"},"a":{}}})";
  const auto now =
      message_of(with_field(fmt::format(R"("output_config":{{"format":{}}})", format)));
  CHECK(schema_of(now) == expected);
  const auto then = message_of(with_field(fmt::format(R"("output_format":{})", format)));
  CHECK(schema_of(then) == expected);
  CHECK(in_client_terms(now.client_names, error{errc::invalid_value, "", constraint_param}).param ==
        "output_config.format.schema");
  CHECK(
      in_client_terms(then.client_names, error{errc::invalid_value, "", constraint_param}).param ==
      "output_format.schema");
  CHECK(schema_of(message_of(with_field(R"("output_config":{"format":null})"))).empty());
}

TEST_CASE("a message with the role assistant at the end is the beginning of the answer") {
  const auto r = message_of(
      with_messages(R"({"role":"user","content":"a"},{"role":"assistant","content":"{"})"));
  CHECK(r.request.template_options.continues_final);
  CHECK_FALSE(r.add_generation_prompt);
  const auto empty = message_of(
      with_messages(R"({"role":"user","content":"a"},{"role":"assistant","content":""})"));
  CHECK_FALSE(empty.request.template_options.continues_final);
  CHECK(std::get<chat_prompt>(empty.request.input).size() == 1);
}

TEST_CASE("calls and their results become messages of a chat") {
  const auto chat = chat_of(with_messages(
      R"({"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"t"},)"
      R"({"type":"tool_use","id":"toolu_1","name":"f","input":{"b":1,"a":"\"x"}},)"
      R"({"type":"tool_use","id":"other","name":"g","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"r"},)"
      R"({"type":"tool_result","tool_use_id":"other","is_error":true,)"
      R"("content":[{"type":"text","text":"no"},{"type":"text","text":"way"}]},)"
      R"({"type":"text","text":"and?"}]})"));
  REQUIRE(chat.size() == 5);
  CHECK(chat[1].content == "t");
  CHECK(chat[1].tool_calls ==
        R"([{"id":"1","type":"function","function":{"name":"f","arguments":{"b": 1, "a": "\"x"}}},)"
        R"({"id":"other","type":"function","function":{"name":"g","arguments":{}}}])");
  CHECK(chat[2].role == "tool");
  CHECK(chat[2].tool_call_id == "1");
  CHECK(chat[2].content == "r");
  CHECK(chat[3].tool_call_id == "other");
  CHECK(chat[3].content == "Error: no\nway");
  CHECK(chat[4] == chat_message{"user", "and?", {}});
}

TEST_CASE("tools have OpenAI's form in the template, with members in the client's order") {
  const auto r = message_of(with_field(weather));
  REQUIRE(r.tools);
  CHECK(r.request.tools == R"([{"type":"function","function":{"name":"f","description":"d",)"
                           R"("parameters":{"type":"object","properties":{"b":{},"a":{}}}}}])");
  CHECK(r.tools->choice == tool_choice::automatic);
  CHECK(r.tools->is_parallel);
  const auto chosen = [](const std::string& choice) {
    return message_of(with_field(std::string(weather) + R"(,"tool_choice":)" + choice)).tools;
  };
  CHECK(chosen(R"({"type":"auto"})")->choice == tool_choice::automatic);
  CHECK(chosen(R"({"type":"any"})")->choice == tool_choice::required);
  CHECK_FALSE(chosen(R"({"type":"auto","disable_parallel_tool_use":true})")->is_parallel);
  CHECK(chosen(R"({"type":"tool","name":"f"})")->named == "f");
  CHECK_FALSE(chosen(R"({"type":"none"})"));
}

TEST_CASE("members of a tool without effect are accepted") {
  const auto r = message_of(with_field(
      R"("tools":[{"type":"custom","name":"f","input_schema":{},"strict":true,"defer_loading":false,)"
      R"("eager_input_streaming":true,"allowed_callers":["direct"],"cache_control":{}}])"));
  CHECK(r.tools->all.at(0).is_strict);
}

TEST_CASE("the fields that make a prompt are counted, others are refused") {
  const auto r = parse_anthropic_count(
      R"({"model":"m","system":"s","messages":[{"role":"user","content":"a"}],)" +
          std::string(weather) + "}",
      testing::default_limits);
  REQUIRE(r);
  CHECK(std::get<chat_prompt>(r->input).size() == 2);
  CHECK_FALSE(r->tools.empty());
  CHECK(r->add_generation_prompt);
  CHECK(r->model == "m");
  CHECK(r->template_options.kwargs == R"({"enable_thinking":false,"thinking":false})");
  const auto refused = parse_anthropic_count(with_messages(R"({"role":"user","content":"a"})"),
                                             testing::default_limits);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().param == "max_tokens");
}

TEST_CASE("mistakes in a body of Anthropic's API are named") {
  struct row {
    std::string body;
    errc code;
    std::string param;
  };
  const auto user = [](const std::string& blocks) {
    return with_messages(R"({"role":"user","content":[)" + blocks + "]}");
  };
  const auto assistant = [](const std::string& blocks) {
    return with_messages(R"({"role":"user","content":"a"},{"role":"assistant","content":[)" +
                         blocks + R"(]},{"role":"user","content":"b"})");
  };
  const auto tools = [](const std::string& members) {
    return with_field(R"("tools":[{"name":"f","input_schema":{},)" + members + "}]");
  };
  using enum errc;
  const row rows[] = {
      {"[]", invalid_request, ""},
      {"{}", invalid_request, "model"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}]})", invalid_request,
       "max_tokens"},
      {R"({"model":"m","max_tokens":1})", invalid_request, "messages"},
      {R"({"model":"m","max_tokens":0,"messages":[{"role":"user","content":"a"}]})", invalid_value,
       "max_tokens"},
      {with_messages(""), invalid_value, "messages"},
      {with_messages("5"), invalid_value, "messages[0]"},
      {with_messages(R"({"content":"a"})"), invalid_request, "messages[0].role"},
      {with_messages(R"({"role":"tool","content":"a"})"), invalid_value, "messages[0].role"},
      {with_messages(R"({"role":"system","content":"a"})"), invalid_value, "messages"},
      {with_messages(R"({"role":"user"})"), invalid_request, "messages[0].content"},
      {with_messages(R"({"role":"user","content":5})"), invalid_value, "messages[0].content"},
      {with_messages(R"({"role":"user","content":[]})"), invalid_value, "messages"},
      {with_messages(R"({"role":"user","content":"a","colour":1})"), unsupported_parameter,
       "messages[0].colour"},
      {user("5"), invalid_value, "messages[0].content[0]"},
      {user("{}"), invalid_request, "messages[0].content[0].type"},
      {user(R"({"type":"text"})"), invalid_request, "messages[0].content[0].text"},
      {user(R"({"type":"text","text":5})"), invalid_value, "messages[0].content[0].text"},
      {user(R"({"type":"text","text":"a","citations":[{}]})"), unsupported_parameter,
       "messages[0].content[0].citations"},
      {user(R"({"type":"image","source":{}})"), unsupported_parameter,
       "messages[0].content[0].type"},
      {user(R"({"type":"document","source":{}})"), unsupported_parameter,
       "messages[0].content[0].type"},
      {user(R"({"type":"tool_use","id":"a","name":"f","input":{}})"), unsupported_parameter,
       "messages[0].content[0].type"},
      {user(R"({"type":"tool_result","content":"a"})"), invalid_request,
       "messages[0].content[0].tool_use_id"},
      {user(R"({"type":"tool_result","tool_use_id":"a","content":[{"type":"image"}]})"),
       unsupported_parameter, "messages[0].content[0].content[0].type"},
      {assistant(R"({"type":"tool_result","tool_use_id":"a"})"), unsupported_parameter,
       "messages[1].content[0].type"},
      {assistant(R"({"type":"thinking","signature":"b"})"), invalid_request,
       "messages[1].content[0].thinking"},
      {assistant(R"({"type":"tool_use","name":"f","input":{}})"), invalid_request,
       "messages[1].content[0].id"},
      {assistant(R"({"type":"tool_use","id":"a","name":"f"})"), invalid_request,
       "messages[1].content[0].input"},
      {assistant(R"({"type":"tool_use","id":"a","name":"f","input":"{}"})"), invalid_value,
       "messages[1].content[0].input"},
      {assistant(R"({"type":"tool_use","id":"a","name":"f g","input":{}})"), invalid_value,
       "messages[1].content[0].name"},
      {with_messages(
           R"({"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]})"),
       invalid_value, "messages"},
      {with_field(R"("system":5)"), invalid_value, "system"},
      {with_field(R"("system":[{"type":"image"}])"), unsupported_parameter, "system[0].type"},
      {with_field(R"("temperature":1.1)"), invalid_value, "temperature"},
      {with_field(R"("top_k":-1)"), invalid_value, "top_k"},
      {with_field(R"("stop_sequences":"a")"), invalid_value, "stop_sequences"},
      {with_field(R"("stop_sequences":[5])"), invalid_value, "stop_sequences"},
      {with_field(R"("stop_sequences":[""])"), invalid_value, "stop_sequences"},
      {with_field(R"("thinking":{"type":"deep"})"), invalid_value, "thinking.type"},
      {with_field(R"("thinking":{"type":"enabled","budget_tokens":0})"), invalid_value,
       "thinking.budget_tokens"},
      {with_field(R"("metadata":{"colour":"red"})"), unsupported_parameter, "metadata.colour"},
      {with_field(R"("cache_control":5)"), invalid_value, "cache_control"},
      {with_field(R"("service_tier":"priority")"), unsupported_parameter, "service_tier"},
      {with_field(R"("output_config":{"effort":"none"})"), invalid_value, "output_config.effort"},
      {with_field(R"("output_config":{"task_budget":{}})"), unsupported_parameter,
       "output_config.task_budget"},
      {with_field(R"("output_config":{"format":{"type":"text","schema":{}}})"), invalid_value,
       "output_config.format.type"},
      {with_field(R"("output_config":{"format":{"type":"json_schema"}})"), invalid_request,
       "output_config.format.schema"},
      {with_field(R"("output_format":{"type":"json_schema","schema":5})"), invalid_value,
       "output_format.schema"},
      {with_field(R"("output_format":{"type":"json_schema","schema":{}},)"
                  R"("output_config":{"format":{"type":"json_schema","schema":{}}})"),
       invalid_value, "output_format.schema"},
      {with_field(R"("context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]})"),
       unsupported_parameter, "context_management"},
      {with_field(R"("mcp_servers":[{}])"), unsupported_parameter, "mcp_servers"},
      {with_field(R"("colour":"red")"), unsupported_parameter, "colour"},
      {with_field(R"("tools":5)"), invalid_value, "tools"},
      {with_field(R"("tools":[5])"), invalid_value, "tools[0]"},
      {with_field(R"("tools":[{"input_schema":{}}])"), invalid_request, "tools[0].name"},
      {with_field(R"("tools":[{"name":"f"}])"), invalid_request, "tools[0].input_schema"},
      {with_field(R"("tools":[{"name":"f","input_schema":[]}])"), invalid_value,
       "tools[0].input_schema"},
      {tools(R"("description":5)"), invalid_value, "tools[0].description"},
      {tools(R"("type":"bash_20250124")"), unsupported_parameter, "tools[0].type"},
      {tools(R"("defer_loading":true)"), unsupported_parameter, "tools[0].defer_loading"},
      {tools(R"("colour":1)"), unsupported_parameter, "tools[0].colour"},
      {with_field(R"("tool_choice":{"type":"any"})"), invalid_value, "tool_choice"},
      {with_field(R"("tool_choice":"auto")"), invalid_value, "tool_choice"},
      {with_field(R"("tool_choice":{"type":"some"})"), invalid_value, "tool_choice.type"},
      {with_field(R"("tool_choice":{"type":"tool"})"), invalid_request, "tool_choice.name"},
      {with_field(R"("tool_choice":{"type":"auto","name":"f"})"), invalid_value,
       "tool_choice.name"},
      {with_field(std::string(weather) + R"(,"tool_choice":{"type":"tool","name":"g"})"),
       invalid_value, "tool_choice"},
  };
  for (const auto& [body, code, param] : rows) {
    CAPTURE(body);
    const auto e = message_error(body);
    CHECK(e.code == code);
    CHECK(e.param == param);
    CHECK(e.message.find("function.") == e.message.npos); // a path of the other API
    CHECK_FALSE(e.message.empty());
  }
}
