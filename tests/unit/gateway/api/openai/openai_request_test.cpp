// OpenAI bodies to typed requests: every field, every range, every refusal by name. Table-driven.
#include "gateway/api/openai/request/openai_request.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace baton;
using namespace baton::gateway;
using baton::testing::default_limits;

namespace {

std::string chat_with(const std::string& fields) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" +
         (fields.empty() ? "" : "," + fields) + "}";
}

std::string completion_with(const std::string& fields) {
  return R"({"model":"m","prompt":"hi")" + (fields.empty() ? "" : "," + fields) + "}";
}

openai_generate chat(const std::string& fields) {
  auto r = parse_generation(openai_api::chat, chat_with(fields), default_limits);
  REQUIRE_MESSAGE(r, fields);
  return *r;
}

error chat_error(const std::string& body) {
  auto r = parse_generation(openai_api::chat, body, default_limits);
  REQUIRE_FALSE_MESSAGE(r, body);
  return r.error();
}

} // namespace

TEST_CASE("a chat request with nothing but messages has OpenAI's defaults") {
  const auto r = chat("");
  const auto& s = r.request.terms.sampling;
  CHECK(std::get<chat_prompt>(r.request.input) == chat_prompt{{"user", "hi", ""}});
  CHECK(s.temperature == 1);
  CHECK(s.top_p == 1);
  CHECK(s.logprobs == -1);
  CHECK(r.request.terms.choices == 1);
  CHECK_FALSE(r.request.terms.max_tokens_given);
  CHECK_FALSE(r.shape.is_stream);
  CHECK(r.add_generation_prompt);
}

TEST_CASE("every supported field reaches its typed field") {
  const auto r = chat(
      R"("temperature":0.5,"top_p":0.25,"top_k":40,"min_p":0.125,"repetition_penalty":1.5,)"
      R"("presence_penalty":-2,"frequency_penalty":2,"logit_bias":{"5":-100,"6":3.5},"seed":-2,)"
      R"("n":3,"stop":["a","b"],"stop_token_ids":[1,2],"ignore_eos":true,"min_tokens":2,)"
      R"("include_stop_str_in_output":true,"logprobs":true,"top_logprobs":4,"stream":true,)"
      R"("stream_options":{"include_usage":true},"user":"u","add_generation_prompt":false,)"
      R"("max_completion_tokens":77)");
  const auto& g = r.request;
  CHECK(g.terms.sampling.temperature == 0.5F);
  CHECK(g.terms.sampling.top_p == 0.25F);
  CHECK(g.terms.sampling.top_k == 40);
  CHECK(g.terms.sampling.min_p == 0.125F);
  CHECK(g.terms.sampling.repetition_penalty == 1.5F);
  CHECK(g.terms.sampling.presence_penalty == -2);
  CHECK(g.terms.sampling.frequency_penalty == 2);
  CHECK(g.terms.sampling.biases == std::vector<logit_bias>{{5, -100}, {6, 3.5F}});
  CHECK(g.terms.sampling.seed == ~std::uint64_t{1});
  CHECK(g.terms.sampling.logprobs == 4);
  CHECK(g.terms.choices == 3);
  CHECK(g.terms.stop.stop_texts == std::vector<std::string>{"a", "b"});
  CHECK(g.terms.stop.stop_ids == std::vector<token_id>{1, 2});
  CHECK(g.terms.stop.ignore_eos);
  CHECK(g.terms.stop.include_stop_text);
  CHECK(g.terms.stop.min_tokens == 2);
  CHECK(g.terms.stop.max_tokens == 77);
  CHECK(g.terms.max_tokens_given);
  CHECK(r.shape.is_stream);
  CHECK(r.shape.includes_usage);
  CHECK(r.shape.has_logprobs);
  CHECK(r.shape.choices == 3);
  CHECK_FALSE(r.add_generation_prompt);
}

TEST_CASE("a completion takes text, ids, and a list of one prompt") {
  const auto input = [](const std::string& prompt) {
    auto r =
        parse_generation(openai_api::completions, R"({"prompt":)" + prompt + "}", default_limits);
    REQUIRE_MESSAGE(r, prompt);
    CHECK(r->request.terms.max_tokens_given);
    CHECK(r->request.terms.stop.max_tokens == 16);
    return r->request.input;
  };
  CHECK(input(R"("hi")") == prompt("hi"));
  CHECK(input(R"(["hi"])") == prompt("hi"));
  CHECK(input("[1,2]") == prompt(ids_prompt{1, 2}));
  CHECK(input("[[1,2]]") == prompt(ids_prompt{1, 2}));
  CHECK(input("[7]") == prompt(ids_prompt{7}));
}

TEST_CASE("text parts are joined, developer is system") {
  auto r = parse_generation(
      openai_api::chat,
      R"({"messages":[{"role":"developer","content":"a"},{"role":"user","name":"x","content":)"
      R"([{"type":"text","text":"b"},{"type":"text","text":"c"}]}]})",
      default_limits);
  REQUIRE(r);
  CHECK(std::get<chat_prompt>(r->request.input) ==
        chat_prompt{{"system", "a", ""}, {"user", "b\nc", "x"}});
}

TEST_CASE("a request without a seed gets one of its own") {
  CHECK(chat("").request.terms.sampling.seed != chat("").request.terms.sampling.seed);
  CHECK(chat(R"("seed":42)").request.terms.sampling.seed == 42);
  const auto named = chat(R"("request_id":"a")").request; // a request that may be repeated
  CHECK(named.request_id == "a");
  CHECK(named.terms.sampling.seed == chat(R"("request_id":"a")").request.terms.sampling.seed);
  CHECK(named.terms.sampling.seed != chat(R"("request_id":"b")").request.terms.sampling.seed);
  CHECK(chat(R"("request_id":"a","seed":42)").request.terms.sampling.seed == 42);
  CHECK(chat(R"("seed":18446744073709551615)").request.terms.sampling.seed == ~std::uint64_t{0});
}

TEST_CASE("a priority is an integer of either sign, 0 by default") {
  CHECK(chat("").request.priority == 0);
  CHECK(chat(R"("priority":-3)").request.priority == -3);
}

TEST_CASE("a value out of range or of the wrong type is refused with its parameter's name") {
  struct row {
    const char* fields;
    const char* param;
  };
  const row rows[] = {
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("temperature":1e300)", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.01)", "top_p"},
      {R"("top_p":[])", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1e9)", "top_k"},
      {R"("num_speculative_tokens":-1)", "num_speculative_tokens"},
      {R"("num_speculative_tokens":17)", "num_speculative_tokens"},
      {R"("priority":0.5)", "priority"},
      {R"("priority":2147483648)", "priority"},
      {R"("top_k":99999999999)", "top_k"},
      {R"("min_p":-0.5)", "min_p"},
      {R"("min_p":1.5)", "min_p"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("presence_penalty":2.5)", "presence_penalty"},
      {R"("frequency_penalty":-2.5)", "frequency_penalty"},
      {R"("n":0)", "n"},
      {R"("n":1000000000)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":1.5)", "n"},
      {R"("n":18446744073709551615)", "n"},
      {R"("n":true)", "n"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":18446744073709551616)", "seed"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":9223372036854775808)", "max_tokens"},
      {R"("max_tokens":1,"max_completion_tokens":-2)", "max_completion_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":9,"max_tokens":8)", "min_tokens"},
      {R"("logit_bias":{"a":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias"},
      {R"("logit_bias":{"1":"x"})", "logit_bias"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("stop":5)", "stop"},
      {R"("stop":[5])", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop"},
      {R"("stop_token_ids":[-1])", "stop_token_ids"},
      {R"("stop_token_ids":[2147483648])", "stop_token_ids"},
      {R"("stop_token_ids":5)", "stop_token_ids"},
      {R"("logprobs":5)", "logprobs"},
      {R"("top_logprobs":5)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":-1)", "top_logprobs"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":5)", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("user":5)", "user"},
      {R"("model":5)", "model"},
      {R"("add_generation_prompt":"x")", "add_generation_prompt"},
  };
  for (const auto& r : rows) {
    CAPTURE(r.fields);
    auto body = chat_with(r.fields);
    if (std::string_view(r.param) == "model") {
      body = R"({"model":5,"messages":[{"role":"user","content":"hi"}]})";
    }
    const auto e = chat_error(body);
    CHECK(e.param == r.param);
    CHECK(e.code == errc::invalid_value);
    CHECK(row_of(e.code).http_status == 400);
  }
}

TEST_CASE("messages that are not a conversation of text are refused with their index") {
  struct row {
    const char* messages;
    const char* param;
  };
  const row rows[] = {
      {R"(null)", "messages"},
      {R"([])", "messages"},
      {R"("hi")", "messages"},
      {R"([5])", "messages[0]"},
      {R"([{"content":"a"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"king","content":"a"}])", "messages[0].role"},
      {R"([{"role":"function","content":"a"}])", "messages[0].role"},
      {R"([{"role":5,"content":"a"}])", "messages[0].role"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":"a","colour":1}])",
       "messages[1].colour"},
      {R"([{"role":"user","content":"a","tool_calls":[{}]}])", "messages[0].tool_calls"},
      {R"([{"role":"user","content":[5]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"text","text":5}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
       "messages[0].content[0].type"},
  };
  for (const auto& r : rows) {
    CAPTURE(r.messages);
    CHECK(chat_error(std::string(R"({"messages":)") + r.messages + "}").param == r.param);
  }
}

TEST_CASE("fields without effect are ignored in messages, parts, calls and tools") {
  const auto conversation = [](const std::string& message) {
    const auto r = parse_generation(
        openai_api::chat, R"({"messages":[{"role":"user","content":"a"},)" + message + "]}",
        default_limits);
    REQUIRE_MESSAGE(r, r.error().message);
    return std::get<chat_prompt>(r->request.input).at(1);
  };
  const chat_message plain{"assistant", "b", ""};
  for (
      const auto* more :
      {R"("type":"text")",
       R"("type":"message","id":"msg_1","status":"completed","phase":"commentary")",
       R"("reasoning_content":null,"reasoning":{},"reasoning_details":[{}],"thinking_blocks":[])",
       R"("cache_control":{"type":"ephemeral"},"provider_specific_fields":{"a":[1]},"metadata":{})",
       R"("refusal":null,"annotations":[{"type":"url_citation"}],"audio":null,"function_call":null)",
       R"("tool_calls":null,"parsed":{"x":1},"name":null,"nobody_knows_this":null)",
       R"("index":0,"logprobs":{},"created":1,"model":"m","timestamp":"t","refusal":"")"}) {
    CAPTURE(more);
    CHECK(conversation(std::string(R"({"role":"assistant","content":"b",)") + more + "}") == plain);
    CHECK(conversation(std::string(R"({"role":"assistant","content":[{"text":"b",)") +
                       R"("cache_control":{"type":"ephemeral"},"id":"p","annotations":[{}],)"
                       R"("parsed":null,"foo":null}]})") == plain);
  }
  const auto call = conversation(
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","index":0,)"
      R"("cache_control":{},"provider_specific_fields":{},"extra_content":{"g":1},"status":"ok",)"
      R"("function":{"name":"f","arguments":"{}","parsed_arguments":{"a":1}}}]})");
  CHECK(call.tool_calls ==
        R"([{"id":"c","type":"function","function":{"name":"f","arguments":{}}}])");
  const auto tools = parse_generation(
      openai_api::chat,
      chat_with(R"("tools":[{"type":"function","cache_control":{},"function":{"name":"f",)"
                R"("description":null,"parameters":null,"strict":null,"cache_control":{}}}])"),
      default_limits);
  REQUIRE_MESSAGE(tools, tools.error().message);
}

TEST_CASE("fields that could change an answer, or misspelt ones, are refused where they are") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"role":"assistant","content":"b","refusal":"no"})", "messages[0].refusal"},
      {R"({"role":"assistant","content":"b","audio":{"id":"a"}})", "messages[0].audio"},
      {R"({"role":"assistant","content":"b","function_call":{"name":"f"}})",
       "messages[0].function_call"},
      {R"({"role":"user","content":"b","type":"image"})", "messages[0].type"},
      {R"({"role":"user","content":"b","parsed_argument":{}})", "messages[0].parsed_argument"},
      {R"({"role":"user","content":[{"type":"text","text":"b","reasoning":"x"}]})",
       "messages[0].content[0].reasoning"},
      {R"({"role":"user","content":[{"image_url":{"url":"x"}}]})", "messages[0].content[0].text"},
  };
  for (const auto& [message, param] : rows) {
    CAPTURE(message);
    CHECK(chat_error(std::string(R"({"messages":[)") + message + "]}").param == param);
  }
  for (const auto* name : {"cache_control", "id", "reasoning_content", "parsed", "index"}) {
    CAPTURE(name);
    CHECK(chat_error(chat_with(fmt::format("\"{}\":1", name))).param == name);
    CHECK(parse_generation(openai_api::chat, chat_with(fmt::format("\"{}\":null", name)),
                           default_limits));
  }
}

TEST_CASE("the newer of two names for the number of tokens applies, in both APIs") {
  for (const auto api : {openai_api::chat, openai_api::completions}) {
    const auto with = api == openai_api::chat ? chat_with : completion_with;
    for (const auto& [fields, most] :
         {std::pair(R"("max_tokens":5)", 5U), std::pair(R"("max_completion_tokens":6)", 6U),
          std::pair(R"("max_tokens":5,"max_completion_tokens":6)", 6U),
          std::pair(R"("max_tokens":5,"max_completion_tokens":null)", 5U)}) {
      CAPTURE(fields);
      const auto r = parse_generation(api, with(fields), default_limits);
      REQUIRE_MESSAGE(r, r.error().message);
      CHECK(r->request.terms.stop.max_tokens == most);
      CHECK(r->request.terms.max_tokens_given);
    }
  }
}

TEST_CASE("continuous usage needs a final one, as in vLLM") {
  const auto shape = [](const std::string& options) {
    return chat(R"("stream":true,"stream_options":)" + options).shape;
  };
  CHECK(shape(R"({"include_usage":true,"continuous_usage_stats":true})").has_running_usage);
  CHECK_FALSE(shape(R"({"include_usage":true})").has_running_usage);
  CHECK_FALSE(shape(R"({"continuous_usage_stats":true})").has_running_usage);
  CHECK_FALSE(shape(R"({"continuous_usage_stats":true})").includes_usage);
  CHECK(shape(R"({"include_obfuscation":true,"include_usage":true})").includes_usage);
}

TEST_CASE("unsupported fields are refused by name, unless they have their default value") {
  struct row {
    const char* field;
    bool passes;
  };
  const row rows[] = {
      {R"("tools":[])", true},
      {R"("functions":[{"name":"f"}])", false},
      {R"("tool_choice":"none")", true},
      {R"("function_call":"auto")", false},
      {R"("response_format":{"type":"text"})", true},
      {R"("best_of":1)", true},
      {R"("best_of":2)", false},
      {R"("functions":null)", true},
      {R"("service_tier":"auto")", true},
      {R"("service_tier":"flex")", false},
      {R"("store":false)", true},
      {R"("store":true)", false},
      {R"("use_beam_search":true)", false},
      {R"("length_penalty":1)", true},
      {R"("guided_decoding_backend":"xgrammar")", false},
      {R"("skip_special_tokens":true)", true},
      {R"("skip_special_tokens":false)", false},
  };
  for (const auto& r : rows) {
    CAPTURE(r.field);
    const auto parsed = parse_generation(openai_api::chat, chat_with(r.field), default_limits);
    CHECK(static_cast<bool>(parsed) == r.passes);
    if (!parsed) {
      CHECK(parsed.error().code == errc::unsupported_parameter);
      CHECK(std::string_view(r.field).find("\"" + parsed.error().param + "\"") == 0);
    }
  }
  const auto suffix =
      parse_generation(openai_api::completions, completion_with(R"("suffix":"x")"), default_limits);
  REQUIRE_FALSE(suffix);
  CHECK(suffix.error().param == "suffix");
}

TEST_CASE("completions may echo their prompt, and draw more answers than they give") {
  const auto parse = [](const std::string& fields) {
    return parse_generation(openai_api::completions, completion_with(fields), default_limits);
  };
  CHECK(parse(R"("echo":true)")->shape.echo == std::vector<std::string>{"hi"});
  CHECK(parse(R"("echo":false)")->shape.echo.empty());
  const auto best = parse(R"("n":2,"best_of":5)");
  REQUIRE(best);
  CHECK(best->request.terms.choices == 5);
  CHECK(best->shape.choices == 2);
  CHECK(best->shape.best_of == 5);
  CHECK(best->request.terms.sampling.logprobs == 0);
  CHECK_FALSE(best->shape.has_logprobs);
  const auto same = parse(R"("n":2,"best_of":2,"stream":true)");
  REQUIRE(same);
  CHECK(same->shape.best_of == 0);
  CHECK(same->request.terms.sampling.logprobs == -1);
  CHECK(parse(R"("best_of":3,"logprobs":4)")->request.terms.sampling.logprobs == 4);
  const std::pair<const char*, const char*> rows[] = {
      {R"("max_tokens":0,"echo":true)", "max_tokens"},
      {R"("echo":1)", "echo"},
      {R"("max_tokens":0,"logprobs":1)", "max_tokens"},
      {R"("n":3,"best_of":2)", "best_of"},
      {R"("best_of":17)", "best_of"},
      {R"("best_of":2,"stream":true)", "best_of"},
      {R"("best_of":"2")", "best_of"},
  };
  for (const auto& [fields, param] : rows) {
    CAPTURE(fields);
    const auto bad = parse(fields);
    REQUIRE_FALSE(bad);
    CHECK(bad.error().param == param);
  }
  const auto ids =
      parse_generation(openai_api::completions, R"({"prompt":[1,2],"echo":true})", default_limits);
  REQUIRE(ids);
  CHECK(ids->shape.echo == std::vector<std::string>{""}); // its tokens give the text
  CHECK(ids->request.terms.sampling.prompt_logprobs == 0);
  CHECK_FALSE(ids->shape.has_logprobs);
}

TEST_CASE("an echo with logprobs requests those of the prompt, and needs no token after it") {
  const auto parse = [](const std::string& fields) {
    return parse_generation(openai_api::completions, completion_with(fields), default_limits);
  };
  const auto scored = parse(R"("echo":true,"logprobs":2,"max_tokens":0)");
  REQUIRE_MESSAGE(scored, scored.error().message);
  CHECK(scored->request.terms.sampling.prompt_logprobs == 2);
  CHECK(scored->request.terms.stop.max_tokens == 0);
  CHECK(scored->shape.echo == std::vector<std::string>{"hi"});
  CHECK(parse(R"("echo":true)")->request.terms.sampling.prompt_logprobs == -1);
  CHECK(parse(R"("logprobs":2)")->request.terms.sampling.prompt_logprobs == -1);
  const auto chat = chat_error(chat_with(R"("max_tokens":0)"));
  CHECK(chat.param == "max_tokens");
}

TEST_CASE("an unknown field is refused with the nearest name") {
  const auto e = chat_error(chat_with(R"("temprature":1)"));
  CHECK(e.code == errc::unsupported_parameter);
  CHECK(e.param == "temprature");
  CHECK(e.message.find("did you mean 'temperature'?") != std::string::npos);
  CHECK(chat_error(chat_with(R"("qqqqqqqqqqqq":1)")).message.find("mean") == std::string::npos);
  // Its name comes back printable and short.
  const auto odd = chat_error(chat_with("\"\\u0007" + std::string(5000, 'x') + "\":1"));
  CHECK(odd.param.size() == 64);
  CHECK(odd.param[0] == '?');
}

TEST_CASE("invalid or too deep JSON is refused, never thrown") {
  std::vector<std::string> bodies = {
      "",
      "null",
      "[]",
      "5",
      "{",
      "{\"a\":}",
      "{} x",
      "\xff\xfe",
      "{\"messages\":\"\x80\"}",
      R"({"messages":"\ud800"})",
      R"({"temperature":1e400})",
      R"({"temperature":NaN})",
      R"({"n":01})",
      "{'a':1}",
      std::string(100'000, '['),
      std::string(129, '[') + std::string(129, ']'),
      std::string(1, '\0'),
  };
  for (const auto& body : bodies) {
    CAPTURE(body.substr(0, 40));
    CHECK(chat_error(body).code == errc::invalid_request);
  }
  // The maximum depth fails for another reason.
  const auto deep = R"({"messages":)" + std::string(127, '[') + std::string(127, ']') + "}";
  CHECK(chat_error(deep).param == "messages[0]");
}

TEST_CASE("random edits of a good body never crash the parser") {
  const auto good = chat_with(R"("logit_bias":{"5":-1},"stop":["a"],"stream":true,"n":2)");
  std::uint64_t state = 42;
  const auto random = [&] { // xorshift64
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto body = good;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      body[random() % body.size()] = static_cast<char>(random() % 256);
    }
    refused += parse_generation(openai_api::chat, body, default_limits) ? 0 : 1;
  }
  CHECK(refused > 10'000);
}

TEST_CASE("tokenize takes a prompt or messages, not both") {
  auto text = parse_tokenize(R"({"prompt":"hi","return_token_strs":true})", default_limits);
  REQUIRE(text);
  CHECK(text->input == prompt("hi"));
  CHECK(text->returns_pieces);
  CHECK(parse_tokenize(R"({"messages":[{"role":"user","content":"x"}]})", default_limits));
  CHECK_FALSE(parse_tokenize(R"({"prompt":"a","messages":[]})", default_limits));
  CHECK_FALSE(parse_tokenize("{}", default_limits));
  CHECK_FALSE(parse_tokenize(R"({"prompt":5})", default_limits));
  auto ids = parse_detokenize(R"({"tokens":[1,2]})", default_limits);
  REQUIRE(ids);
  CHECK(ids->ids == std::vector<token_id>{1, 2});
  CHECK(parse_detokenize(R"({"tokens":[-1]})", default_limits).error().param == "tokens");
  CHECK(parse_detokenize(R"({})", default_limits).error().param == "tokens");
}
