// Bodies of the Responses API to typed requests: items, tools, formats, and refusals by name.
#include "gateway/api/openai/request/openai_tools.hpp"
#include "gateway/api/responses/responses_input.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::gateway;
using nlohmann::json;

namespace {

response_create response_call_of(const std::string& fields) {
  auto r = parse_response("{" + fields + "}", testing::default_config);
  REQUIRE_MESSAGE(r, fields << (r ? "" : r.error().message));
  return *std::move(r);
}

error response_error(const std::string& fields, const gateway_config& c = testing::default_config) {
  auto r = parse_response("{" + fields + "}", c);
  REQUIRE_FALSE_MESSAGE(r, fields);
  return r.error();
}

chat_prompt chat_of(const std::string& input) {
  return std::get<chat_prompt>(response_call_of("\"input\":" + input).call.request.input);
}

} // namespace

TEST_CASE("a text is a message of the user, with OpenAI's defaults") {
  const auto r = response_call_of(R"("input":"hi")");
  CHECK(std::get<chat_prompt>(r.call.request.input) == chat_prompt{{"user", "hi", {}}});
  CHECK(r.call.request.terms.sampling.temperature == 1);
  CHECK_FALSE(r.call.request.terms.max_tokens_given);
  CHECK(r.shape.is_stored);
  CHECK_FALSE(r.shape.is_stream);
  CHECK_FALSE(r.shape.is_background);
  CHECK(r.instructions.empty());
  CHECK(r.previous.empty());
  const auto asked = json::parse(r.shape.asked);
  CHECK(asked["tool_choice"] == "auto");
  CHECK(asked["tools"].empty());
  CHECK(asked["text"] == json{{"format", {{"type", "text"}}}});
  CHECK(asked["store"] == true);
}

TEST_CASE("every field reaches its typed field, and the answer repeats it") {
  const auto r = response_call_of(
      R"("input":"hi","model":"m","instructions":"be brief","max_output_tokens":7,)"
      R"("temperature":0.5,"top_p":0.25,"seed":3,"store":true,"background":true,"stream":true,)"
      R"("previous_response_id":"resp_1","metadata":{"a":"b"},"user":"u","truncation":"disabled",)"
      R"("include":[],"service_tier":"auto","top_logprobs":0,"cache_salt":"s","priority":-2)");
  const auto& g = r.call.request;
  CHECK(g.model == "m");
  CHECK(g.terms.stop.max_tokens == 7);
  CHECK(g.terms.max_tokens_given);
  CHECK(g.terms.sampling.temperature == 0.5F);
  CHECK(g.terms.sampling.top_p == 0.25F);
  CHECK(g.terms.sampling.seed == 3);
  CHECK(g.terms.cache_salt == "s");
  CHECK(g.priority == -2);
  CHECK(r.instructions == "be brief");
  CHECK(r.previous == "resp_1");
  CHECK(r.shape.is_background);
  CHECK(r.shape.is_stream);
  const auto asked = json::parse(r.shape.asked);
  CHECK(asked["instructions"] == "be brief");
  CHECK(asked["metadata"] == json{{"a", "b"}});
  CHECK(asked["max_output_tokens"] == 7);
  CHECK(asked["temperature"] == 0.5);
  CHECK(asked["previous_response_id"] == "resp_1");
  CHECK(asked["background"] == true);
}

TEST_CASE("a path without a response is not found") {
  for (const auto* target : {"", "/", "/v1/responses", "http://a/v1/responses/resp_1", "x"}) {
    const auto asked = parse_response_question("GET", target);
    REQUIRE_FALSE(asked);
    CHECK(asked.error().code == errc::not_found);
  }
}

TEST_CASE("items become messages; consecutive calls are one") {
  const auto chat = chat_of(
      R"([{"role":"developer","content":"d"},)"
      R"({"type":"message","role":"user","content":[{"type":"input_text","text":"a"},)"
      R"({"type":"input_text","text":"b"}]},)"
      R"({"type":"message","id":"msg_1","status":"completed","role":"assistant","content":)"
      R"([{"type":"output_text","text":"I look","annotations":[],"logprobs":[]}]},)"
      R"({"type":"function_call","id":"fc_1","status":"completed","call_id":"c1","name":"f",)"
      R"("arguments":"{\"x\": 1}"},)"
      R"({"type":"function_call","call_id":"c2","name":"g","arguments":""},)"
      R"({"type":"function_call_output","call_id":"c1","output":"12"},)"
      R"({"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"x"}]}])");
  REQUIRE(chat.size() == 5);
  CHECK(chat[0] == chat_message{"system", "d", {}});
  CHECK(chat[1] == chat_message{"user", "a\nb", {}});
  CHECK(chat[2].content == "I look");
  const auto calls = json::parse(chat[2].tool_calls);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["id"] == "c1");
  CHECK(calls[0]["function"] == json{{"name", "f"}, {"arguments", {{"x", 1}}}});
  CHECK(calls[1]["function"] == json{{"name", "g"}, {"arguments", json::object()}});
  CHECK(chat[3].role == "tool");
  CHECK(chat[3].tool_call_id == "c1");
  CHECK(chat[4].content == "x");
}

TEST_CASE("functions are a chat's tools, and a named one must be called") {
  auto r =
      response_call_of(R"("input":"hi","tools":[{"type":"function","name":"f","description":"d",)"
                       R"("parameters":{"type":"object","properties":{"b":{"type":"string"},)"
                       R"("a":{"type":"integer"}},"required":["b"]},"strict":true},)"
                       R"({"type":"function","name":"g"}],"parallel_tool_calls":false,)"
                       R"("tool_choice":{"type":"function","name":"f"})");
  REQUIRE(r.call.tools);
  CHECK(r.call.tools->choice == tool_choice::named);
  CHECK(r.call.tools->named == "f");
  CHECK_FALSE(r.call.tools->is_parallel);
  CHECK(r.call.tools->all[0].is_strict);
  CHECK_FALSE(r.call.tools->all[1].is_strict);
  CHECK(r.call.tools->all[0].schema.find("\"b\"") < r.call.tools->all[0].schema.find("\"a\""));
  const auto parsed = json::parse(r.call.request.tools);
  CHECK(parsed[0]["function"]["name"] == "f");
  REQUIRE(settle_calls(r.call, call_format::hermes));
  CHECK(r.call.request.terms.sampling.constraint);
  const auto asked = json::parse(r.shape.asked);
  CHECK(asked["tools"][0]["name"] == "f"); // as it was sent
  CHECK(asked["tool_choice"] == json{{"type", "function"}, {"name", "f"}});
  CHECK_FALSE(response_call_of(
                  R"("input":"a","tools":[{"type":"function","name":"f"}],"tool_choice":"none")")
                  .call.tools);
}

TEST_CASE("a format is a constraint with its members in their order") {
  const auto r = response_call_of(
      R"("input":"hi","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":)"
      R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}},)"
      R"("required":["b","a"]}},"verbosity":"medium"})");
  const auto& c = r.call.request.terms.sampling.constraint;
  REQUIRE(c);
  CHECK(c->kind == constraint_kind::json_schema);
  CHECK(c->text.find("\"b\"") < c->text.find("\"a\""));
  CHECK(response_call_of(R"("input":"hi","text":{"format":{"type":"json_object"}})")
            .call.request.terms.sampling.constraint);
  CHECK_FALSE(response_call_of(R"("input":"hi","text":{"format":{"type":"text"}})")
                  .call.request.terms.sampling.constraint);
  CHECK_FALSE(response_call_of(R"("input":"hi","text":{})").call.request.terms.sampling.constraint);
}

TEST_CASE("reasoning comes back in the content that only this server reads") {
  CHECK_FALSE(response_call_of(R"("input":"hi","include":[])").shape.includes_encrypted);
  CHECK(response_call_of(R"("input":"hi","include":["reasoning.encrypted_content"])")
            .shape.includes_encrypted);
  const auto reasoning_of = [](const std::string& item) {
    const auto r = response_call_of(
        R"("input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[],)" + item +
        R"(},{"role":"assistant","content":"b"}])");
    return std::get<chat_prompt>(r.call.request.input)[1].reasoning;
  };
  const auto own = R"("encrypted_content":")" + encrypted_content("I \xC3\xA9 think") + "\"";
  CHECK(reasoning_of(own) == "I \xC3\xA9 think");
  CHECK(reasoning_of(own + R"(,"content":[])") == "I \xC3\xA9 think");
  CHECK(reasoning_of(own + R"(,"content":[{"type":"reasoning_text","text":"so"}])") == "so");
  CHECK(reasoning_of(R"("encrypted_content":"gAAAA")").empty()); // another server's
  CHECK(reasoning_of(R"("encrypted_content":null)").empty());
}

TEST_CASE("invalid and missing fields are refused by their name here") {
  const std::pair<const char*, const char*> rows[] = {
      {R"("model":"m")", "input"},
      {R"("input":5)", "input"},
      {R"("input":[])", "input"},
      {R"("input":[5])", "input[0]"},
      {R"("input":[{"role":"tool","content":"x"}])", "input[0].role"},
      {R"("input":[{"role":"user"}])", "input[0].content"},
      {R"("input":[{"content":"x"}])", "input[0].role"},
      {R"("input":[{"type":"reasoning","content":5}])", "input[0].content"},
      {R"("input":[{"type":"reasoning","encrypted_content":5}])", "input[0].encrypted_content"},
      {R"("input":[{"type":"reasoning","encrypted_content":"baton.*"}])",
       "input[0].encrypted_content"},
      {R"("input":[{"type":"reasoning","encrypted_content":"baton./w=="}])",
       "input[0].encrypted_content"},
      {R"("input":"a","include":"x")", "include"},
      {R"("input":"a","include":[5])", "include"},
      {R"("input":"a","include":["file_search_call.results"])", "include"},
      {R"("input":[{"type":"item_reference","id":"x"}])", "input[0].type"},
      {R"("input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
       "input[0].content[0].type"},
      {R"("input":[{"role":"user","content":[{"type":"input_file","file_id":"x"}]}])",
       "input[0].content[0].type"},
      {R"("input":[{"role":"user","content":[{"type":"input_text"}]}])",
       "input[0].content[0].text"},
      {R"("input":[{"type":"function_call","name":"f","arguments":"{}"}])", "input[0].call_id"},
      {R"("input":[{"type":"function_call","call_id":"c","name":"f f","arguments":"{}"}])",
       "input[0].name"},
      {R"("input":[{"type":"function_call","call_id":"c","name":"f","arguments":"x"}])",
       "input[0].arguments"},
      {R"("input":[{"type":"function_call_output","output":"x"}])", "input[0].call_id"},
      {R"("input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}","role":"x"}])",
       "input[0].role"},
      {R"("input":"a","tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("input":"a","tools":[{"type":"function","name":"f f"}])", "tools[0].name"},
      {R"("input":"a","tools":[{"type":"function","name":"f","colour":1}])", "tools[0].colour"},
      {R"("input":"a","tool_choice":"required")", "tool_choice"},
      {R"("input":"a","tool_choice":{"type":"file_search"})", "tool_choice"},
      {R"("input":"a","text":{"format":{"type":"yaml"}})", "text.format.type"},
      {R"("input":"a","text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema"},
      {R"("input":"a","text":{"format":{"type":"json_schema","name":"n","schema":{"not":{}}}})",
       "text.format"},
      {R"("input":"a","text":{"verbosity":"low"})", "text.verbosity"},
      {R"("input":"a","truncation":"auto")", "truncation"},
      {R"("input":"a","reasoning":{"summary":"detailed"})", "reasoning.summary"},
      {R"("input":"a","include":["message.output_text.logprobs"])", "include"},
      {R"("input":"a","conversation":"conv_1")", "conversation"},
      {R"("input":"a","prompt":{"id":"p"})", "prompt"},
      {R"("input":"a","max_tool_calls":2)", "max_tool_calls"},
      {R"("input":"a","top_logprobs":2)", "top_logprobs"},
      {R"("input":"a","temperature":3)", "temperature"},
      {R"("input":"a","max_output_tokens":0)", "max_output_tokens"},
      {R"("input":"a","metadata":{"a":5})", "metadata"},
      {R"("input":"a","background":true,"store":false)", "background"},
      {R"("input":"a","messages":[])", "messages"},
  };
  for (const auto& [fields, param] : rows) {
    CAPTURE(fields);
    const auto e = response_error(fields);
    CHECK(e.param == param);
    CHECK(e.message.find("tool_calls[") == std::string::npos);
    CHECK(e.message.find("response_format") == std::string::npos);
  }
}

TEST_CASE("where several gateways share an address nothing is stored") {
  gateway_config shared;
  shared.shares_http = true;
  CHECK_FALSE(parse_response(R"({"input":"a"})", shared)->shape.is_stored);
  CHECK(response_error(R"("input":"a","store":true)", shared).param == "store");
  CHECK(response_error(R"("input":"a","background":true)", shared).param == "background");
  CHECK(response_error(R"("input":"a","previous_response_id":"x")", shared).param ==
        "previous_response_id");
}

TEST_CASE("requests for a stored response are read from the path and its query") {
  using kind = response_question::kind;
  const auto whole = parse_response_question("GET", "/v1/responses/resp_1_ab");
  REQUIRE(whole);
  CHECK(whole->what == kind::whole);
  CHECK(whole->id == "resp_1_ab");
  const auto events = parse_response_question(
      "GET", "/v1/responses/r?stream=true&starting_after=12&include_obfuscation=false");
  REQUIRE(events);
  CHECK(events->what == kind::events);
  CHECK(events->starting_after == 12);
  CHECK(parse_response_question("POST", "/v1/responses/r/cancel")->what == kind::cancel);
  CHECK(parse_response_question("DELETE", "/v1/responses/r?x=1")->what == kind::remove);
  CHECK(parse_response_question("GET", "/v1/responses/r?stream=false")->what == kind::whole);
  const std::pair<const char*, const char*> rows[] = {
      {"stream=yes", "stream"},
      {"starting_after=1", "starting_after"},
      {"stream=true&starting_after=-1", "starting_after"},
      {"stream=true&starting_after=", "starting_after"},
      {"include[]=x", "include[]"},
      {"include_obfuscation=true", "include_obfuscation"},
      {"colour=red", "colour"},
  };
  for (const auto& [query, param] : rows) {
    CAPTURE(query);
    const auto bad = parse_response_question("GET", std::string("/v1/responses/r?") + query);
    REQUIRE_FALSE(bad);
    CHECK(bad.error().param == param);
  }
}
