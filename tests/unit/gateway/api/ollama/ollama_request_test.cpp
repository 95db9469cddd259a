// Ollama's bodies to typed requests: conversations, tools, every option, every refusal by name.
#include "gateway/api/ollama/ollama_openapi.hpp"
#include "gateway/api/ollama/ollama_request.hpp"
#include "gateway/request/json_reader.hpp"
#include "gateway/request/request_check.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace baton;
using namespace baton::gateway;

namespace {

constexpr auto by_chat = ollama_route::chat;
constexpr auto by_generate = ollama_route::generate;

std::string ollama_chat_body(const std::string& members) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}],)" + members + "}";
}

std::string with_options(const std::string& options) {
  return ollama_chat_body(R"("options":{)" + options + "}");
}

ollama_call ollama_of(const std::string& body, ollama_route route = by_chat) {
  auto r = parse_ollama(route, body, testing::default_limits);
  REQUIRE_MESSAGE(r, body << ": " << (r ? "" : r.error().message));
  return *std::move(r);
}

error ollama_error_of(const std::string& body, ollama_route route = by_chat) {
  const auto r = parse_ollama(route, body, testing::default_limits);
  REQUIRE_FALSE_MESSAGE(r, body);
  return r.error();
}

const chat_prompt& conversation_of(const ollama_call& call) {
  return std::get<chat_prompt>(call.asked.request.input);
}

} // namespace

TEST_CASE("a conversation of Ollama's API becomes a chat, with calls and their results") {
  const auto r = ollama_of(
      R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"u",)"
      R"("images":[]},{"role":"assistant","content":"c","thinking":"t","tool_calls":[)"
      R"({"function":{"index":0,"name":"f","arguments":{"b":1,"a":2}}},)"
      R"({"id":"mine","type":"function","function":{"name":"g"}}]},)"
      R"({"role":"tool","content":"of g","tool_name":"g"},{"role":"tool","content":"of f"}]})");
  const auto& chat = conversation_of(r);
  REQUIRE(chat.size() == 5);
  CHECK(chat[0] == chat_message{"system", "s", {}});
  CHECK(chat[1] == chat_message{"user", "u", {}});
  CHECK(chat[2].content == "c");
  CHECK(
      chat[2].tool_calls ==
      R"([{"id":"call00001","type":"function","function":{"name":"f","arguments":{"b": 1, "a": 2}}},)"
      R"({"id":"mine","type":"function","function":{"name":"g","arguments":{}}}])");
  CHECK(chat[3].tool_call_id == "mine");
  CHECK(chat[3].name == "g");
  CHECK(chat[4].tool_call_id == "call00001");
  CHECK(chat[4].name == "f");
  CHECK(r.asked.shape.is_stream); // Ollama's default
  CHECK(r.asked.add_generation_prompt);
  CHECK_FALSE(r.only_loads);
}

TEST_CASE("a last message of the assistant is continued, an empty one is left out") {
  const auto begun = ollama_of(
      R"({"model":"m","messages":[{"role":"user","content":"u"},{"role":"assistant","content":"So"}]})");
  CHECK(begun.asked.request.template_options.continues_final);
  CHECK_FALSE(begun.asked.add_generation_prompt);
  const auto empty =
      ollama_of(R"({"model":"m","messages":[{"role":"user","content":"u"},{"role":"assistant"}]})");
  CHECK(conversation_of(empty).size() == 1);
  CHECK(empty.asked.add_generation_prompt);
}

TEST_CASE("a prompt of Ollama's API becomes a chat, or is taken as it is") {
  const auto asked =
      ollama_of(R"({"model":"m","prompt":"p","system":"s","context":[],"suffix":"","template":""})",
                by_generate);
  CHECK(conversation_of(asked) == chat_prompt{{"system", "s", {}}, {"user", "p", {}}});
  CHECK_FALSE(asked.bare_prompt);
  const auto plain = ollama_of(R"({"model":"m","prompt":"p","stream":false})", by_generate);
  CHECK(conversation_of(plain) == chat_prompt{{"user", "p", {}}});
  CHECK(plain.bare_prompt == "p"); // for a model without a template
  CHECK_FALSE(plain.asked.shape.is_stream);
  const auto raw = ollama_of(R"({"model":"m","prompt":"p","raw":true})", by_generate);
  CHECK(std::get<std::string>(raw.asked.request.input) == "p");
  CHECK(ollama_error_of(R"({"model":"m","prompt":"p","raw":true,"system":"s"})", by_generate)
            .message == "raw mode does not support template, system, or context");
}

TEST_CASE("keep_alive is a number of seconds or a duration, and below 0 for ever") {
  using ms = std::chrono::milliseconds;
  for (const auto& [given, meant] : {
           std::pair{"0", 0},
           std::pair{"300", 300'000},
           std::pair{"0.25", 250},
           std::pair{"-1", -1},
           std::pair{"-0.5", -1},
           std::pair{"1e300", -1},
           std::pair{"\"5m\"", 300'000},
           std::pair{"\"1h1m1s\"", 3'661'000},
           std::pair{"\"1.5m\"", 90'000},
           std::pair{"\"20ms\"", 20},
           std::pair{"\"3us\"", 1},
           std::pair{"\"-1\"", -1},
           std::pair{"\"-1m\"", -1},
           std::pair{"\"24\"", 24'000},
           std::pair{"\"0\"", 0},
           std::pair{"\"0s\"", 0},
           std::pair{"\"+2s\"", 2000},
           std::pair{"\"900000h\"", -1},
       }) {
    CAPTURE(given);
    const auto call = ollama_of(fmt::format(
        R"({{"model":"m","messages":[{{"role":"user","content":"x"}}],"keep_alive":{}}})", given));
    CHECK(call.keep_alive == ms(meant));
    CHECK_FALSE(call.unloads);
  }
  CHECK_FALSE(ollama_of(R"({"model":"m","messages":[{"role":"user","content":"x"}]})").keep_alive);
  for (const auto* wrong : {"\"\"", "\"m\"", "\"5 m\"", "\"5x\"", "\"1m2\"", "\"1.2.3s\"",
                            "\"--1\"", "\".s\"", "true", "[]"}) {
    CAPTURE(wrong);
    const auto e = ollama_error_of(fmt::format(R"({{"model":"m","keep_alive":{}}})", wrong));
    CHECK(e.param == "keep_alive");
    CHECK(e.message.find("keep_alive") != std::string::npos);
  }
}

TEST_CASE("a request without a prompt loads the model") {
  CHECK(ollama_of(R"({"model":"m"})").only_loads);
  CHECK(ollama_of(R"({"model":"m","messages":[],"keep_alive":0})").only_loads);
  for (const auto* zero : {"0", "0.0", "\"0\"", "\"0s\"", "\"0m0s\""})
    CHECK(ollama_of(fmt::format(R"({{"model":"m","messages":[],"keep_alive":{}}})", zero)).unloads);
  for (const auto* more : {"-1", "300", "\"5m\"", "\"10s\"", "\"0m1s\""})
    CHECK_FALSE(
        ollama_of(fmt::format(R"({{"model":"m","messages":[],"keep_alive":{}}})", more)).unloads);
  CHECK_FALSE(
      ollama_of(R"({"model":"m","messages":[{"role":"user","content":"x"}],"keep_alive":0})")
          .unloads);
  CHECK(ollama_of(R"({"model":"m","keep_alive":"5m"})", by_generate).only_loads);
  CHECK(ollama_error_of("{}").message == "model is required");
  CHECK(ollama_error_of(R"({"model":"m","keep_alive":true})").param == "keep_alive");
}

TEST_CASE("the options of Ollama become sampling and an end") {
  const auto r = ollama_of(with_options(
      R"("temperature":0.5,"top_k":7,"top_p":0.25,"min_p":0.125,"typical_p":0.75,"seed":42,)"
      R"("repeat_penalty":1.25,"presence_penalty":0.5,"frequency_penalty":-0.5,"num_predict":9,)"
      R"("stop":["x","y"],"repeat_last_n":-1,"num_ctx":8192.0,"num_keep":4)"));
  const auto& terms = r.asked.request.terms;
  CHECK(terms.sampling.temperature == 0.5F);
  CHECK(terms.sampling.top_k == 7);
  CHECK(terms.sampling.top_p == 0.25F);
  CHECK(terms.sampling.min_p == 0.125F);
  CHECK(terms.sampling.typical_p == 0.75F);
  CHECK(terms.sampling.seed == 42);
  CHECK(terms.sampling.repetition_penalty == 1.25F);
  CHECK(terms.sampling.presence_penalty == 0.5F);
  CHECK(terms.sampling.frequency_penalty == -0.5F);
  CHECK(terms.stop.max_tokens == 9);
  CHECK(terms.max_tokens_given);
  CHECK(terms.stop.stop_texts == std::vector<std::string>{"x", "y"});
  CHECK(r.asked.request.unspecified == 0);
  CHECK(r.asked.request.prompt_tokens_max == 0);
}

TEST_CASE("options that are left out have Ollama's defaults, below those of the model") {
  for (const auto& body : {ollama_chat_body(R"("options":null)"), with_options("")}) {
    const auto r = ollama_of(body);
    const auto& terms = r.asked.request.terms;
    CHECK(terms.sampling.temperature == 0.8F);
    CHECK(terms.sampling.top_k == 40);
    CHECK(terms.sampling.top_p == 0.9F);
    CHECK(terms.sampling.repetition_penalty == 1);
    CHECK_FALSE(terms.max_tokens_given);
    CHECK(r.asked.request.unspecified == all_sampling_fields);
  }
}

TEST_CASE("num_predict without a limit fills the context") {
  for (const auto* asked : {"-1", "-2", "0"}) {
    const auto r = ollama_of(with_options(std::string(R"("num_predict":)") + asked));
    CHECK_FALSE(r.asked.request.terms.max_tokens_given);
    CHECK((r.asked.request.unspecified & bit_of(sampling_field::max_tokens)) == 0);
  }
  CHECK(ollama_error_of(with_options(R"("num_predict":-3)")).param == "options.num_predict");
}

TEST_CASE("repeat_last_n counts all tokens or none") {
  const auto none =
      ollama_of(with_options(R"("repeat_last_n":0,"repeat_penalty":1.5,"presence_penalty":1)"));
  CHECK_FALSE(none.asked.request.terms.sampling.needs_history());
  CHECK((none.asked.request.unspecified & bit_of(sampling_field::repetition_penalty)) == 0);
  ollama_of(with_options(R"("repeat_last_n":64,"repeat_penalty":1)")); // there is nothing to count
  CHECK(ollama_error_of(with_options(R"("repeat_last_n":64,"repeat_penalty":1.1)")).param ==
        "options.repeat_last_n");
}

TEST_CASE("a prompt is cut only where the client says so") {
  const auto cut = [](const std::string& options) {
    return ollama_of(ollama_chat_body(R"("truncate":true,"options":{)" + options + "}"))
        .asked.request.prompt_tokens_max;
  };
  CHECK(cut("") == prompt_tokens_of_context);
  CHECK(cut(R"("num_ctx":100)") == 100);
  CHECK(ollama_error_of(ollama_chat_body(R"("truncate":true,"options":{"num_keep":5})")).param ==
        "options.num_keep");
  CHECK(ollama_of(ollama_chat_body(R"("truncate":false,"shift":false)"))
            .asked.request.prompt_tokens_max == 0);
}

TEST_CASE("options of Ollama's runner have no effect, and others are refused by name") {
  ollama_of(with_options(
      R"("num_gpu":1,"main_gpu":0,"num_thread":8,"num_batch":512,"numa":false,"use_mmap":true,)"
      R"("use_mlock":false,"low_vram":false,"f16_kv":true,"logits_all":false,"vocab_only":false,)"
      R"("tfs_z":1.0,"mirostat":0,"mirostat_tau":5.0,"mirostat_eta":0.1,"penalize_newline":true,)"
      R"("embedding_only":false)"));
  for (const auto* option : {R"("mirostat":1)", R"("tfs_z":0.5)", R"("penalize_newline":false)",
                             R"("vocab_only":true)", R"("temprature":1)"}) {
    const auto e = ollama_error_of(with_options(option));
    const std::string name(option + 1, std::string(option).find('"', 1) - 1);
    CHECK(e.code == errc::unsupported_parameter);
    CHECK(e.param == "options." + name);
  }
  for (const auto* option : {R"("temperature":-1)", R"("top_p":0)", R"("top_k":"a")",
                             R"("num_ctx":1.5)", R"("seed":"s")", R"("stop":3)"}) {
    const std::string name(option + 1, std::string(option).find('"', 1) - 1);
    CHECK(ollama_error_of(with_options(option)).param == "options." + name);
  }
  CHECK(ollama_error_of(with_options(R"("stop":[""])")).param == "options.stop");
}

TEST_CASE("a format of Ollama constrains the answer") {
  const auto constraint_of = [](const std::string& format) {
    return ollama_of(ollama_chat_body(R"("format":)" + format))
        .asked.request.terms.sampling.constraint;
  };
  CHECK_FALSE(constraint_of(R"("")"));
  CHECK(constraint_of(R"("json")")->kind == constraint_kind::json_object);
  const auto schema = constraint_of(R"({"type":"object","properties":{"b":{},"a":{}}})");
  CHECK(schema->kind == constraint_kind::json_schema);
  CHECK(schema->text == R"({"type":"object","properties":{"b":{},"a":{}}})");
  CHECK(ollama_error_of(ollama_chat_body(R"("format":"xml")")).param == "format");
  CHECK(ollama_error_of(ollama_chat_body(R"("format":3)")).param == "format");
  CHECK(ollama_error_of(ollama_chat_body(R"("format":{"type":"nope"})")).param == "format");
}

TEST_CASE("tools of Ollama are OpenAI's") {
  const auto r = ollama_of(ollama_chat_body(
      R"("tools":[{"function":{"name":"f","description":null,"parameters":)"
      R"({"type":"object","properties":{"b":{},"a":{}}}}},{"type":"function","function":)"
      R"({"name":"g"}}])"));
  REQUIRE(r.asked.tools);
  CHECK(r.asked.tools->all.size() == 2);
  CHECK(r.asked.request.tools == r.asked.tools->text);
  CHECK(r.asked.tools->text.find(R"("properties":{"b":{},"a":{}})") != std::string::npos);
  CHECK_FALSE(ollama_of(ollama_chat_body(R"("tools":[])")).asked.tools);
  CHECK(ollama_error_of(ollama_chat_body(R"("tools":[{"function":{"name":"a b"}}])")).param ==
        "tools[0].function.name");
  CHECK(ollama_error_of(ollama_chat_body(R"("tools":{})")).param == "tools");
}

TEST_CASE("reasoning is turned on and off, and has a level") {
  const auto asked = [](const char* think) {
    return ollama_of(ollama_chat_body(std::string(R"("think":)") + think)).asked.reasoning;
  };
  CHECK(asked("false").is_on == false);
  CHECK(asked("true").is_on == true);
  CHECK(asked("true").param == "think");
  CHECK(asked(R"("high")").is_on == true);
  CHECK(asked(R"("high")").effort == "high");
  CHECK_FALSE(asked("null").is_on);
  for (const auto* think : {R"("lots")", "5"}) {
    const auto e = ollama_error_of(ollama_chat_body(std::string(R"("think":)") + think));
    CHECK(e.code == errc::invalid_value);
    CHECK(e.param == "think");
  }
}

TEST_CASE("log-probabilities are asked for by two fields") {
  const auto asked = ollama_of(ollama_chat_body(R"("logprobs":true,"top_logprobs":3)"));
  CHECK(asked.asked.request.terms.sampling.logprobs == 3);
  CHECK(asked.asked.shape.has_logprobs);
  CHECK(ollama_of(ollama_chat_body(R"("logprobs":false)")).asked.request.terms.sampling.logprobs ==
        -1);
  CHECK(ollama_error_of(ollama_chat_body(R"("top_logprobs":3)")).param == "top_logprobs");
}

TEST_CASE("unsupported fields of Ollama are refused by name") {
  for (const auto* field :
       {R"("suffix":"x")", R"("template":"{{ .Prompt }}")", R"("context":[1,2])", R"("shift":true)",
        R"("images":["AA=="])", R"("width":512)", R"("colour":"red")"}) {
    const std::string name(field + 1, std::string(field).find('"', 1) - 1);
    const auto e =
        ollama_error_of(R"({"model":"m","prompt":"p",)" + std::string(field) + "}", by_generate);
    CHECK(e.code == errc::unsupported_parameter);
    CHECK(e.param == name);
  }
  const auto message = [](const std::string& members) {
    return ollama_error_of(R"({"model":"m","messages":[{)" + members + "}]}").param;
  };
  CHECK(message(R"("role":"user","images":["AA=="])") == "messages[0].images");
  CHECK(message(R"("role":"robot","content":"a")") == "messages[0].role");
  CHECK(message(R"("content":"a")") == "messages[0].role");
  CHECK(message(R"("role":"user","content":[])") == "messages[0].content");
  CHECK(message(R"("role":"user","tool_calls":[{}])") == "messages[0].tool_calls");
  CHECK(message(R"("role":"assistant","tool_calls":[{}])") == "messages[0].tool_calls[0].function");
  CHECK(message(R"("role":"assistant","tool_calls":[{"function":{"name":"a b"}}])") ==
        "messages[0].tool_calls[0].function.name");
  CHECK(
      message(R"("role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}])") ==
      "messages[0].tool_calls[0].function.arguments");
}

TEST_CASE("texts to embed, in the newer and the older form") {
  const auto& limits = testing::default_limits;
  const auto two = parse_ollama_embed(
      R"({"model":"m","input":["a","b"],"truncate":true,"keep_alive":"5m","options":{"num_ctx":9}})",
      limits);
  REQUIRE(two);
  REQUIRE(two->requests.size() == 2);
  CHECK(std::get<std::string>(two->requests[1].input) == "b");
  CHECK(two->requests[0].terms.wants_embedding);
  CHECK(parse_ollama_embed(R"({"model":"m","input":"a"})", limits)->requests.size() == 1);
  CHECK(parse_ollama_embed(R"({"model":"m","input":[]})", limits)->requests.empty());
  const auto older = parse_ollama_embeddings(R"({"model":"m","prompt":"a"})", limits);
  REQUIRE(older);
  CHECK(older->is_older);
  CHECK(older->requests.size() == 1);
  CHECK(parse_ollama_embed(R"({"model":"m"})", limits).error().param == "input");
  CHECK(parse_ollama_embed(R"({"model":"m","input":[1]})", limits).error().param == "input");
  CHECK(parse_ollama_embed(R"({"model":"m","input":"a","dimensions":4})", limits).error().param ==
        "dimensions");
  CHECK(parse_ollama_embeddings(R"({"model":"m","prompt":["a"]})", limits).error().param ==
        "prompt");
  CHECK(parse_ollama_embed(R"({"input":"a"})", limits).error().message == "model is required");
}

TEST_CASE("a model is named by model or by name") {
  const auto& limits = testing::default_limits;
  CHECK(parse_ollama_show(R"({"model":"m","verbose":true})", limits)->model == "m");
  CHECK(parse_ollama_show(R"({"name":"m"})", limits)->model == "m");
  CHECK_FALSE(parse_ollama_show("{}", limits));
  CHECK(parse_ollama_pull(R"({"model":"m","insecure":true})", limits)->is_stream);
  CHECK_FALSE(parse_ollama_pull(R"({"name":"m","stream":false})", limits)->is_stream);
}

TEST_CASE("the schemas have every field of the bodies") {
  const auto schema = ollama_chat_schema(testing::default_config);
  for (const auto& name : fields_of_ollama(by_chat, testing::default_limits)) {
    CAPTURE(name);
    CHECK(schema["properties"].contains(name));
  }
  CHECK(ollama_generate_schema(testing::default_config)["properties"].contains("prompt"));
}
