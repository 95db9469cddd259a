// Tools in chat requests: parsed, guaranteed by a grammar, and answered, whole and as events.
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/openai/request/openai_tools.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <sstream>

using namespace baton;
using namespace baton::gateway;

namespace {

constexpr const char* two_tools =
    R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",)"
    R"("properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["b"]}}},)"
    R"({"type":"function","function":{"name":"g","strict":false}}])";

result<openai_generate>
parse_tools(const std::string& fields,
            const std::string& messages = R"([{"role":"user","content":"x"}])") {
  return parse_generation(openai_api::chat, fmt::format(R"({{"messages":{}{}}})", messages, fields),
                          testing::default_limits);
}

std::string with_tools(const std::string& further = "") {
  return fmt::format(R"(,"tools":{}{})", two_tools, further);
}

openai_generate settled(const std::string& fields, call_format format = call_format::hermes) {
  auto r = parse_tools(fields);
  REQUIRE_MESSAGE(r, r.error().message);
  auto ok = settle_calls(*r, format);
  REQUIRE_MESSAGE(ok, ok.error().message);
  return *std::move(r);
}

std::string tools_constraint(const openai_generate& g) {
  const auto& c = g.request.terms.sampling.constraint;
  REQUIRE(c);
  CHECK(c->kind == constraint_kind::calls);
  return c->text;
}

} // namespace

TEST_CASE("tools go to the template as written, unless no call is allowed") {
  const auto r = settled(with_tools());
  CHECK(r.request.tools == two_tools);
  REQUIRE(r.shape.calls);
  CHECK(r.shape.calls->names == std::vector<std::string>{"f", "g"});
  CHECK_FALSE(r.shape.calls->is_constrained);
  CHECK_FALSE(r.request.terms.sampling.constraint);
  for (const auto* none : {R"(,"tools":[])", R"(,"tools":null)", R"(,"tool_choice":"auto")",
                           R"(,"tool_choice":"none","parallel_tool_calls":true)"}) {
    CAPTURE(none);
    const auto without = settled(none);
    CHECK(without.request.tools.empty());
    CHECK_FALSE(without.shape.calls);
  }
  const auto none = settled(with_tools(R"(,"tool_choice":"none")"));
  CHECK(none.request.tools.empty());
  CHECK_FALSE(none.shape.calls);
}

TEST_CASE("a grammar guarantees what a model does not") {
  const std::string schema =
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, )"
      R"("required": ["b"]})";
  const std::string f = R"({"name":"f","schema":)" + schema + "}";
  const std::string g = R"({"name":"g","schema":{"type":"object","properties":{}}})";
  CHECK(tools_constraint(settled(with_tools(R"(,"tool_choice":"required")"))) ==
        R"({"format":"hermes","calls_max":16,"has_text":false,"tools":[)" + f + "," + g + "]}");
  CHECK(tools_constraint(
            settled(with_tools(R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"))) ==
        R"({"format":"hermes","calls_max":1,"has_text":false,"tools":[)" + g + "]}");
  CHECK(tools_constraint(settled(with_tools(R"(,"tool_choice":"g")"))) == // as TGI has it
        R"({"format":"hermes","calls_max":1,"has_text":false,"tools":[)" + g + "]}");
  CHECK(tools_constraint(settled(with_tools(R"(,"parallel_tool_calls":false)"))) ==
        R"({"format":"hermes","calls_max":1,"has_text":true,"tools":[{"name":"f"},{"name":"g"}]})");
  // Llama's template refuses two calls in one message.
  CHECK(tools_constraint(settled(with_tools(R"(,"tool_choice":"required")"), call_format::llama3))
            .starts_with(R"({"format":"llama3","calls_max":1,"has_text":false)"));
  const auto strict =
      settled(R"(,"tools":[{"type":"function","function":{"name":"s","strict":true,)"
              R"("parameters":{"properties":{"z":{},"a":{}}}}},)"
              R"({"type":"function","function":{"name":"t"}}])");
  CHECK(tools_constraint(strict) ==
        R"({"format":"hermes","calls_max":16,"has_text":true,"tools":[{"name":"s","schema":)"
        R"({"type": "object", "properties": {"z": {}, "a": {}}}},{"name":"t"}]})");
  CHECK(strict.shape.calls->is_constrained);
}

TEST_CASE("errors in tools are refused by name") {
  const std::pair<std::string, const char*> rows[] = {
      {R"(,"tools":{})", "tools"},
      {R"(,"tools":[5])", "tools[0]"},
      {R"(,"tools":[{}])", "tools[0].type"},
      {R"(,"tools":[{"type":"custom","custom":{"name":"x"}}])", "tools[0].type"},
      {R"(,"tools":[{"type":"function"}])", "tools[0].function"},
      {R"(,"tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"(,"tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"(,"tools":[{"type":"function","function":{"name":""}}])", "tools[0].function.name"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","parameters":5}}])",
       "tools[0].function.parameters"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","strict":1}}])",
       "tools[0].function.strict"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","colour":1}}])",
       "tools[0].function.colour"},
      {R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function",)"
       R"("function":{"name":"f"}}])",
       "tools[1].function.name"},
      {R"(,"tool_choice":"required")", "tool_choice"},
      {with_tools(R"(,"tool_choice":"any")"), "tool_choice"},
      {with_tools(R"(,"tool_choice":5)"), "tool_choice"},
      {with_tools(R"(,"tool_choice":{"type":"function","function":{"name":"h"}})"), "tool_choice"},
      {with_tools(R"(,"tool_choice":{"type":"allowed_tools"})"), "tool_choice.type"},
      {with_tools(R"(,"tool_choice":{"type":"function","function":{}})"),
       "tool_choice.function.name"},
      {with_tools(R"(,"parallel_tool_calls":1)"), "parallel_tool_calls"},
      {with_tools(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a",)"
                  R"("schema":{"not":{}}}})"),
       "response_format"},
      {R"(,"functions":[{"name":"f"}])", "functions"},
  };
  for (const auto& [fields, param] : rows) {
    CAPTURE(fields);
    const auto r = parse_tools(fields);
    REQUIRE_FALSE(r);
    CHECK(r.error().param == param);
  }
  CHECK(parse_tools(R"(,"functions":[{"name":"f"}])").error().message.ends_with("use 'tools'"));
  CHECK(
      parse_tools(with_tools(R"(,"tool_choice":"none","response_format":{"type":"json_object"})")));
  auto r =
      parse_tools(R"(,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f",)"
                  R"("parameters":{"not":{}}}}])");
  REQUIRE(r);
  const auto settle = settle_calls(*r, call_format::hermes);
  REQUIRE_FALSE(settle);
  CHECK(settle.error().param == "tools");
  CHECK(settle.error().code == errc::unsupported_parameter);
}

TEST_CASE("messages with calls and their results are read, arguments as objects") {
  const auto r = parse_tools(
      "", R"([{"role":"user","content":"x"},{"role":"assistant","content":null,"refusal":null,)"
          R"("tool_calls":[)"
          R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{\"b\": 1.0,)"
          R"( \"a\": \"\\n\"}"}},)"
          R"({"id":"c2","type":"function","function":{"name":"g","arguments":""}}]},)"
          R"({"role":"tool","tool_call_id":"c1","content":"42"}])");
  REQUIRE_MESSAGE(r, r.error().message);
  const auto& chat = std::get<chat_prompt>(r->request.input);
  CHECK(chat[1].content.empty());
  CHECK(
      chat[1].tool_calls ==
      R"([{"id":"c1","type":"function","function":{"name":"f","arguments":{"b": 1.0, "a": "\n"}}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}}])");
  CHECK(chat[2] == chat_message{"tool", "42", "", "", "c1"});

  const std::pair<const char*, const char*> rows[] = {
      {R"([{"role":"tool","content":"a"}])", "messages[0].tool_call_id"},
      {R"([{"role":"tool","tool_call_id":"c"}])", "messages[0].content"},
      {R"([{"role":"user","content":"a","tool_call_id":"c"}])", "messages[0].tool_call_id"},
      {R"([{"role":"assistant","tool_calls":[]}])", "messages[0].content"},
      {R"([{"role":"assistant","tool_calls":[5]}])", "messages[0].tool_calls[0]"},
      {R"([{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f",)"
       R"("arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].id"},
      {R"([{"role":"assistant","tool_calls":[{"id":"c","type":"function",)"
       R"("function":{"name":"f"}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f",)"
       R"("arguments":"[1]"}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role":"assistant","tool_calls":[{"id":"c","type":"custom"}]}])",
       "messages[0].tool_calls[0].type"},
  };
  for (const auto& [messages, param] : rows) {
    CAPTURE(messages);
    const auto bad = parse_tools("", messages);
    REQUIRE_FALSE(bad);
    CHECK(bad.error().param == param);
  }
}

namespace {

chunk tool_chunk(std::uint32_t index, std::string text, finish how = finish::none) {
  chunk c;
  c.ticket = ticket_id{9};
  c.index = index;
  c.count = how == finish::none ? 1 : 0;
  c.text = std::move(text);
  c.finish = how;
  c.output_tokens = index;
  return c;
}

reply_shape tool_shape(bool is_constrained = false, call_format format = call_format::hermes) {
  reply_shape s;
  s.model = std::string("m"); // GCC 12 warns wrongly of one letter that is assigned (PR 105651)
  s.calls = std::make_shared<const call_reading>(call_reading{format, {"f"}, is_constrained});
  return s;
}

const std::vector<std::string> words{"I ",
                                     "look",
                                     ".\n<tool",
                                     "_call>\n{\"name\": ",
                                     "\"f\", \"arguments\": ",
                                     "{\"a\": ",
                                     "1}}\n</tool",
                                     "_call>\n<tool_call>",
                                     "\n{\"name\": \"f\", \"arguments\": {}}",
                                     "\n</tool_call>"};

struct tool_event {
  std::string id;
  json data;
};

// Without [DONE].
std::vector<tool_event> tool_events(const std::string& text) {
  std::vector<tool_event> out;
  std::istringstream lines(text);
  std::string id;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("id: ")) {
      id = line.substr(4);
    } else if (line.starts_with("data: {")) {
      out.push_back({id, json::parse(line.substr(6))});
    }
  }
  return out;
}

std::vector<tool_event> tool_stream(const reply_shape& shape,
                                    const std::optional<stream_position>& from, bool as_one) {
  openai_stream w(shape, testing::answerer, from);
  std::string out;
  if (as_one) { // as a resume repeats it
    chunk all = tool_chunk(static_cast<std::uint32_t>(words.size()), "");
    for (const auto& word : words) {
      all.text += word;
    }
    w.add(all, out);
  } else {
    for (std::size_t i = 0; i < words.size(); ++i) {
      w.add(tool_chunk(static_cast<std::uint32_t>(i + 1), words[i]), out);
    }
  }
  w.add(tool_chunk(static_cast<std::uint32_t>(words.size()), "", finish::stop), out);
  CHECK(w.has_ended());
  return tool_events(out);
}

// A client's view of the events.
struct received_calls {
  std::string text;
  std::vector<std::string> ids, names, arguments;
  std::string finish;
  void take(const tool_event& e) {
    const auto& choice = e.data["choices"][0];
    const auto& delta = choice["delta"];
    text += delta.value("content", "");
    for (const auto& call : delta.value("tool_calls", json::array())) {
      if (call.contains("id")) {
        CHECK(call["index"] == ids.size());
        ids.push_back(call["id"]);
        names.push_back(call["function"]["name"]);
        arguments.emplace_back();
      }
      arguments.at(call["index"]) += call["function"]["arguments"];
    }
    if (!choice["finish_reason"].is_null())
      finish = choice["finish_reason"].get<std::string>();
  }
  friend bool operator==(const received_calls&, const received_calls&) = default;
};

} // namespace

TEST_CASE("a whole answer with calls has OpenAI's shape") {
  openai_unary r(tool_shape());
  for (std::size_t i = 0; i < words.size(); ++i) {
    r.add(tool_chunk(static_cast<std::uint32_t>(i + 1), words[i]));
  }
  r.add(tool_chunk(static_cast<std::uint32_t>(words.size()), "", finish::stop));
  const auto choice = json::parse(r.body(testing::answerer))["choices"][0];
  CHECK(choice["finish_reason"] == "tool_calls");
  CHECK(choice["message"]["content"] == "I look.");
  const auto& calls = choice["message"]["tool_calls"];
  REQUIRE(calls.size() == 2);
  CHECK(calls[0]["type"] == "function");
  CHECK(calls[0]["function"] == json{{"name", "f"}, {"arguments", "{\"a\": 1}"}});
  CHECK(calls[0]["id"] != calls[1]["id"]);
  CHECK(calls[0]["id"].get<std::string>().starts_with("call_"));

  openai_unary only(tool_shape(false, call_format::mistral));
  only.add(tool_chunk(1, R"([{"name": "f", "arguments": {}}])", finish::length));
  const auto cut = json::parse(only.body(testing::answerer))["choices"][0];
  CHECK(cut["message"]["content"].is_null());
  CHECK(cut["finish_reason"] == "length");
  CHECK(cut["message"]["tool_calls"][0]["id"].get<std::string>().size() == 9);

  openai_unary plain(tool_shape());
  plain.add(tool_chunk(1, "Hello", finish::stop));
  const auto text = json::parse(plain.body(testing::answerer))["choices"][0];
  CHECK(text["finish_reason"] == "stop");
  CHECK(text["message"]["content"] == "Hello");
  CHECK_FALSE(text["message"].contains("tool_calls"));
}

TEST_CASE("a stream with calls equals the whole answer, also after a resume anywhere") {
  for (const bool is_constrained : {false, true}) {
    const auto shape = tool_shape(is_constrained);
    const auto whole = tool_stream(shape, std::nullopt, /*as_one=*/false);
    received_calls all;
    for (const auto& e : whole) {
      all.take(e);
    }
    CHECK(all.text == "I look.");
    CHECK(all.names == std::vector<std::string>{"f", "f"});
    CHECK(all.arguments == std::vector<std::string>{"{\"a\": 1}", "{}"});
    CHECK(all.finish == "tool_calls");
    std::set<std::string> ids;
    for (std::size_t had = 1; had <= whole.size(); ++had) {
      CAPTURE(had);
      CHECK(ids.insert(whole[had - 1].id).second); // event ids are unique
      const auto place = parse_position(whole[had - 1].id, 1);
      REQUIRE(place);
      for (const bool as_one : {false, true}) {
        received_calls again;
        for (std::size_t i = 0; i < had; ++i) {
          again.take(whole[i]);
        }
        for (const auto& e : tool_stream(shape, *place, as_one)) {
          again.take(e);
        }
        CHECK((again == all));
      }
    }
  }
}

TEST_CASE("logprobs of a stream with calls come once each, also after a resume") {
  auto shape = tool_shape();
  shape.has_logprobs = true;
  const auto write = [&](const std::optional<stream_position>& from) {
    openai_stream w(shape, testing::answerer, from);
    std::string out;
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      auto c = tool_chunk(i + 1, words[i]);
      c.details = {{{words[i], 7, -1.0F}, {}}};
      w.add(c, out);
    }
    std::size_t count = 0;
    for (const auto& e : tool_events(out)) {
      const auto& logprobs = e.data["choices"][0]["logprobs"];
      count += logprobs.is_null() ? 0 : logprobs["content"].size();
    }
    return count;
  };
  CHECK(write(std::nullopt) == words.size());
  CHECK(write(stream_position{
            {9}, 0xAB, {{3, false}}, {words[0].size() + words[1].size() + words[2].size()}}) ==
        words.size() - 3);
}

TEST_CASE("an answer without calls has the requested format") {
  const auto settled = [](const std::string& more) {
    auto r = parse_tools(with_tools(
        R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":)" + more));
    REQUIRE_MESSAGE(r, r.error().message);
    auto ok = settle_calls(*r, call_format::hermes);
    return ok ? result<openai_generate>(*std::move(r)) : ok.error();
  };
  const auto either = settled(R"({"type":"integer"}}})");
  REQUIRE_MESSAGE(either, either.error().message);
  CHECK(either->request.terms.sampling.constraint->kind == constraint_kind::calls);
  CHECK(either->request.terms.sampling.constraint->text.ends_with(
      R"(,"otherwise":{"kind":2,"text":"{\"type\":\"integer\"}"}})"));
  CHECK_FALSE(either->shape.calls->is_constrained);
  const auto forced = settled(R"({"type":"integer"}}},"tool_choice":"required")");
  REQUIRE(forced);
  CHECK(forced->request.terms.sampling.constraint->text.find("otherwise") == std::string::npos);
  CHECK(forced->shape.calls->is_constrained);
}
