// Bodies of the KServe v2 protocol to typed requests: tensors in JSON and in bytes, members of
// generate, the parameters of Triton's vLLM backend and of TensorRT-LLM. Every refusal by name.
// Table-driven.
#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "tests/unit/gateway/defaults.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

using namespace baton;
using namespace baton::gateway;

namespace {

result<kserve_generate> read_infer(const std::string& text, const std::string& bytes = {},
                                   kserve_route route = kserve_route::infer) {
  const auto size = bytes.empty() ? std::string() : std::to_string(text.size());
  auto call = parse_infer(text + bytes, size, testing::default_config.request);
  if (!call) {
    return call.error();
  }
  return read_kserve(route, *std::move(call), "smol", testing::default_config);
}

result<kserve_generate> read_generate(const std::string& body,
                                      kserve_route route = kserve_route::generate) {
  auto call = parse_generate(body, testing::default_config.request);
  if (!call) {
    return call.error();
  }
  return read_kserve(route, *std::move(call), "smol", testing::default_config);
}

const std::string text_input =
    testing::kserve_input("text_input", "BYTES", R"("shape":[1],"data":["hi"])");

std::string infer_body(const std::string& inputs, const std::string& more = {}) {
  return R"({"inputs":[)" + inputs + "]" + more + "}";
}

std::string bytes_of(std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string out(4, '\0');
  std::memcpy(out.data(), &size, 4);
  return out + std::string(text);
}

} // namespace

TEST_CASE("a text alone is a completion of sixteen tokens, with its prompt before it") {
  for (const auto& r :
       {read_infer(infer_body(text_input)), read_generate(R"({"text_input":"hi"})")}) {
    REQUIRE(r);
    CHECK(std::get<std::string>(r->request.input) == "hi");
    CHECK(r->request.model == "smol");
    CHECK(r->request.terms.stop.max_tokens == 16);
    CHECK(r->request.terms.sampling.temperature == 1);
    CHECK(r->request.terms.sampling.logprobs == -1);
    CHECK(r->request.terms.deadline.count() == 0);
    CHECK(r->shape.lead == "hi");
    CHECK_FALSE(r->shape.is_stream);
    REQUIRE(r->shape.outputs.size() == 1);
    CHECK(r->shape.outputs[0].which == kserve_output::text_output);
    CHECK_FALSE(r->shape.outputs[0].is_binary);
  }
}

TEST_CASE("tensors come as JSON, nested or not, and as bytes after it, in any mixture") {
  const auto sized = [](std::size_t n) {
    return fmt::format(R"("shape":[1],"parameters":{{"binary_data_size":{}}})", n);
  };
  const auto prompt = bytes_of("h\xC3\xA9");
  const auto json_text =
      infer_body(testing::kserve_input("text_input", "BYTES", sized(prompt.size()).c_str()) + "," +
                 testing::kserve_input("max_tokens", "INT32", R"("shape":[1,1],"data":[[7]])") +
                 "," + testing::kserve_input("temperature", "FP32", sized(4).c_str()) + "," +
                 testing::kserve_input("seed", "UINT64", sized(8).c_str()) + "," +
                 testing::kserve_input("exclude_input_in_output", "BOOL", sized(1).c_str()) + "," +
                 testing::kserve_input("stop_words", "BYTES", R"("shape":[2],"data":["a","b"])"));
  const float half = 0.5F;
  const std::uint64_t seed = ~std::uint64_t{0};
  std::string bytes = prompt;
  bytes.append(reinterpret_cast<const char*>(&half), 4);
  bytes.append(reinterpret_cast<const char*>(&seed), 8);
  bytes += '\1';
  const auto r = read_infer(json_text, bytes);
  REQUIRE_MESSAGE(r, (r ? "" : r.error().message));
  CHECK(std::get<std::string>(r->request.input) == "h\xC3\xA9");
  CHECK(r->request.terms.stop.max_tokens == 7);
  CHECK(r->request.terms.sampling.temperature == 0.5F);
  CHECK(r->request.terms.sampling.seed == seed);
  CHECK(r->request.terms.stop.stop_texts == std::vector<std::string>{"a", "b"});
  CHECK(r->shape.lead.empty());
}

TEST_CASE("parameters of vLLM reach their fields, as numbers and as texts") {
  const std::string values =
      R"("temperature":"0.5","top_p":0.25,"top_k":"40","min_p":0.125,"n":2,"max_tokens":"7",)"
      R"("min_tokens":3,"seed":"18446744073709551615","presence_penalty":1,"ignore_eos":"True",)"
      R"("frequency_penalty":"-1","repetition_penalty":1.5,"logprobs":2,"stop":["x"],)"
      R"("truncate_prompt_tokens":9,"stop_token_ids":[5],"skip_special_tokens":true)";
  const auto tensor = nlohmann::json("{" + values + "}").dump();
  const auto as_tensor =
      infer_body(text_input + "," +
                 testing::kserve_input("sampling_parameters", "BYTES",
                                       (R"("shape":[1],"data":[)" + tensor + "]").c_str()));
  for (const auto& r : {read_infer(as_tensor),
                        read_infer(infer_body(text_input, R"(,"parameters":{)" + values + "}")),
                        read_generate(R"({"text_input":"hi",)" + values + "}"),
                        read_generate(R"({"text_input":"hi","parameters":{)" + values + "}}")}) {
    REQUIRE_MESSAGE(r, (r ? "" : r.error().message));
    const auto& s = r->request.terms.sampling;
    CHECK(s.temperature == 0.5F);
    CHECK(s.top_p == 0.25F);
    CHECK(s.top_k == 40);
    CHECK(s.min_p == 0.125F);
    CHECK(s.seed == ~std::uint64_t{0});
    CHECK(s.presence_penalty == 1);
    CHECK(s.frequency_penalty == -1);
    CHECK(s.repetition_penalty == 1.5F);
    CHECK(s.logprobs == 2);
    CHECK(r->request.terms.choices == 2);
    CHECK(r->shape.choices == 2);
    CHECK(r->shape.has_logprobs);
    CHECK(r->request.terms.stop.max_tokens == 7);
    CHECK(r->request.terms.stop.min_tokens == 3);
    CHECK(r->request.terms.stop.ignore_eos);
    CHECK(r->request.terms.stop.stop_texts == std::vector<std::string>{"x"});
    CHECK(r->request.terms.stop.stop_ids == std::vector<token_id>{5});
    CHECK(r->request.prompt_tokens_max == 9);
  }
}

TEST_CASE("the fields of TensorRT-LLM's clients are accepted, including empty strings") {
  const auto r = read_generate(
      R"({"text_input":"hi","max_tokens":20,"bad_words":"","stop_words":"","pad_id":2,"end_id":2,)"
      R"("random_seed":4,"beam_width":1,"min_length":2,"length_penalty":1.0})");
  REQUIRE_MESSAGE(r, (r ? "" : r.error().message));
  CHECK(r->request.terms.stop.max_tokens == 20);
  CHECK(r->request.terms.stop.min_tokens == 2);
  CHECK(r->request.terms.stop.stop_ids == std::vector<token_id>{2});
  CHECK(r->request.terms.stop.stop_texts.empty());
  CHECK(r->request.terms.sampling.seed == 4);
  const auto words = read_generate(R"({"text_input":"hi","stop_words":["a","b"]})");
  REQUIRE(words);
  CHECK(words->request.terms.stop.stop_texts == std::vector<std::string>{"a", "b"});
}

TEST_CASE("equal duplicates are accepted, and contradictions are refused") {
  const auto twice = [](const char* value) {
    return read_infer(infer_body(
        text_input + "," +
            testing::kserve_input(
                "sampling_parameters", "BYTES",
                fmt::format(R"("shape":[1],"data":["{{\"max_tokens\":{}}}"])", value).c_str()),
        R"(,"parameters":{"max_tokens":"5"})"));
  };
  REQUIRE(twice("5"));
  REQUIRE(twice("\\\"5\\\""));
  REQUIRE_FALSE(twice("6"));
  CHECK(twice("6").error().param == "max_tokens");
}

TEST_CASE("a schema comes as a text or as an object, with its members in order") {
  const char* schema =
      R"({"type":"object","properties":{"z":{"type":"null"},"a":{"type":"null"}}})";
  const auto object = fmt::format(R"({{"json":{}}})", schema);
  for (const auto* name : {"structured_outputs", "guided_decoding"}) {
    for (const auto& value : {object, nlohmann::json(object).dump()}) {
      const auto inner = fmt::format(R"({{"{}":{}}})", name, value);
      for (const auto& r : {read_generate(R"({"text_input":"hi","parameters":)" + inner + "}"),
                            read_generate(R"({"text_input":"hi","sampling_parameters":)" +
                                          nlohmann::json(inner).dump() + "}")}) {
        REQUIRE_MESSAGE(r, (r ? "" : r.error().message));
        const auto& shape = r->request.terms.sampling.constraint;
        REQUIRE(shape);
        CHECK(shape->kind == constraint_kind::json_schema);
        CHECK(shape->text == schema);
      }
    }
  }
  // A text is a value, never a part of the document around it.
  const auto forged =
      read_generate(R"({"text_input":"hi","parameters":{"structured_outputs":"{},\"n\":9"}})");
  REQUIRE_FALSE(forged);
  CHECK(forged.error().param == "structured_outputs");
}

TEST_CASE("outputs are the named ones, or the text and those switched on") {
  const auto flags =
      testing::kserve_input("return_num_output_tokens", "BOOL", R"("shape":[1],"data":[true])") +
      "," +
      testing::kserve_input("return_cumulative_logprob", "BOOL", R"("shape":[1],"data":[true])") +
      "," + testing::kserve_input("return_finish_reason", "BOOL", R"("shape":[1],"data":[false])");
  const auto on = read_infer(
      infer_body(text_input + "," + flags, R"(,"parameters":{"binary_data_output":true})"));
  REQUIRE(on);
  REQUIRE(on->shape.outputs.size() == 3);
  CHECK(on->shape.outputs[1].which == kserve_output::cumulative_logprob);
  CHECK(on->shape.outputs[2].which == kserve_output::num_output_tokens);
  CHECK(on->shape.outputs[2].is_binary);
  CHECK(on->request.terms.sampling.logprobs == 0);
  CHECK_FALSE(on->shape.has_logprobs);
  const auto named = read_infer(infer_body(
      text_input + "," + flags,
      R"(,"outputs":[{"name":"finish_reason"},{"name":"text_output","parameters":{"binary_data":true}}])"));
  REQUIRE(named);
  REQUIRE(named->shape.outputs.size() == 2);
  CHECK(named->shape.outputs[0].which == kserve_output::finish_reason);
  CHECK_FALSE(named->shape.outputs[0].is_binary);
  CHECK(named->shape.outputs[1].is_binary);
}

TEST_CASE("a stream omits its prompt, and needs a route that can stream") {
  const std::string body = R"({"text_input":"hi","stream":true)";
  const auto r = read_generate(body + "}", kserve_route::generate_stream);
  REQUIRE(r);
  CHECK(r->shape.is_stream);
  CHECK(r->shape.lead.empty());
  const auto whole = read_generate(R"({"text_input":"hi"})", kserve_route::generate_stream);
  REQUIRE(whole);
  CHECK_FALSE(whole->shape.is_stream);
  CHECK(whole->shape.lead == "hi");
  CHECK(read_generate(body + "}").error().param == "stream");
  CHECK(read_generate(body + R"(,"exclude_input_in_output":false})", kserve_route::generate_stream)
            .error()
            .param == "exclude_input_in_output");
  const auto streamed = infer_body(
      text_input + "," + testing::kserve_input("stream", "BOOL", R"("shape":[1],"data":[true])"));
  CHECK(read_infer(streamed).error().param == "stream");
  CHECK(read_infer(streamed, {}, kserve_route::stream_infer));
}

TEST_CASE("a time-out is the deadline of the answer; sequences and priorities are unsupported") {
  const auto with = [](const char* parameters) {
    return read_infer(infer_body(text_input, fmt::format(R"(,"parameters":{{{}}})", parameters)));
  };
  CHECK(with(R"("timeout":1500)")->request.terms.deadline == std::chrono::milliseconds(2));
  CHECK(with(R"("timeout":18446744073709551615)")->request.terms.deadline.count() > 0);
  REQUIRE(with(R"("sequence_id":0,"sequence_start":false,"sequence_end":false,"priority":0)"));
  for (const auto* bad : {R"("timeout":-1)", R"("timeout":"soon")", R"("sequence_id":7)",
                          R"("sequence_start":true)", R"("priority":1)", R"("triton_x":1)"}) {
    CAPTURE(bad);
    const auto r = with(bad);
    REQUIRE_FALSE(r);
    CHECK(std::string(bad).find(r.error().param) != std::string::npos);
  }
}

TEST_CASE("an unknown tensor is refused by its name") {
  struct row {
    std::string inputs;
    const char* param;
  };
  const auto text = [](const char* rest) {
    return testing::kserve_input("text_input", "BYTES", rest);
  };
  const auto flag = [](const char* rest) {
    return text_input + "," + testing::kserve_input("return_logprobs", "BOOL", rest);
  };
  const row rows[] = {
      {"", "text_input"},
      {testing::kserve_input("image", "BYTES", R"("shape":[1],"data":["x"])"), "image"},
      {testing::kserve_input("text_input", "FP16", R"("shape":[1],"data":[1])"), "text_input"},
      {text_input + "," + text_input, "text_input"},
      {text(R"("shape":[2],"data":["a","b"])"), "text_input"},
      {text(R"("shape":[0],"data":[])"), "text_input"},
      {text(R"("shape":[],"data":["a"])"), "text_input"},
      {text(R"("shape":[-1],"data":["a"])"), "text_input"},
      {text(R"("shape":[1,1,1,1,1,1,1,1,1],"data":["a"])"), "text_input"},
      {text(R"("shape":[4294967296,4294967296],"data":["a"])"), "text_input"},
      {text(R"("shape":[18446744073709551615],"data":["a"])"), "text_input"},
      {text(R"("shape":[1],"data":["a","b"])"), "text_input"},
      {text(R"("shape":[1],"data":[])"), "text_input"},
      {text(R"("shape":[1],"data":[1])"), "text_input"},
      {text(R"("shape":[1])"), "text_input"},
      {text(R"("shape":[1],"data":["a"],"parameters":{"binary_data_size":1})"), "text_input"},
      {text(R"("shape":[1],"parameters":{"binary_data_size":5})"), "text_input"},
      {text(R"("shape":"1","data":["a"])"), "inputs[0].shape"},
      {text(R"("shape":[1.5],"data":["a"])"), "inputs[0].shape"},
      {text(R"("shape":[1],"data":["a"],"parameters":{"shared_memory_region":"r"})"),
       "inputs[0].parameters.shared_memory_region"},
      {text(R"("shape":[1],"data":["a"],"parameters":{"binary_data_size":-1})"),
       "inputs[0].parameters.binary_data_size"},
      {text(R"("shape":[1],"data":["a"],"colour":1)"), "inputs[0].colour"},
      {R"({"datatype":"BYTES","shape":[1],"data":["a"]})", "inputs[0].name"},
      {"7", "inputs[0]"},
      {flag(R"("shape":[1],"data":["yes"])"), "return_logprobs"},
      {flag(R"("shape":[1],"data":[1])"), "return_logprobs"},
      {text_input + "," +
           testing::kserve_input("max_tokens", "INT32", R"("shape":[1],"data":[2147483648])"),
       "max_tokens"},
      {text_input + "," +
           testing::kserve_input("max_tokens", "INT32",
                                 R"("shape":[1],"data":[18446744073709551615])"),
       "max_tokens"},
      {text_input + "," + testing::kserve_input("max_tokens", "INT32", R"("shape":[1],"data":[0])"),
       "max_tokens"},
      {text_input + "," +
           testing::kserve_input("temperature", "FP32", R"("shape":[1],"data":[1e308])"),
       "temperature"},
      {text_input + "," + testing::kserve_input("seed", "UINT64", R"("shape":[1],"data":[-1])"),
       "seed"},
  };
  for (const auto& r : rows) {
    CAPTURE(r.inputs);
    const auto read = read_infer(infer_body(r.inputs));
    REQUIRE_FALSE(read);
    CHECK(read.error().param == r.param);
  }
  std::string many;
  for (int i = 0; i < 65; ++i) {
    many += fmt::format("{}\"{}\"", i ? "," : "", i);
  }
  const auto words = testing::kserve_input("stop_words", "BYTES",
                                           (R"("shape":[65],"data":[)" + many + "]").c_str());
  CHECK(read_infer(infer_body(text_input + "," + words)).error().param == "stop_words");
}

TEST_CASE("bytes that do not match their type or shape are refused") {
  const auto sized = [](const char* name, const char* type, std::size_t n) {
    return testing::kserve_input(
        name, type,
        fmt::format(R"("shape":[1],"parameters":{{"binary_data_size":{}}})", n).c_str());
  };
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::string not_a_number(reinterpret_cast<const char*>(&none), 4);
  struct row {
    std::string inputs;
    std::string bytes;
    const char* param;
  };
  const row rows[] = {
      {sized("text_input", "BYTES", 6), bytes_of("ab") + "c", "inputs"},
      {sized("text_input", "BYTES", 7), bytes_of("ab"), "text_input"},
      {sized("text_input", "BYTES", 7), bytes_of("ab") + "c", "text_input"},
      {sized("text_input", "BYTES", 3), "abc", "text_input"},
      {sized("text_input", "BYTES", 4), "\xFF\xFF\xFF\xFF", "text_input"},
      {sized("text_input", "BYTES", 6), bytes_of("\xC3("), "text_input"},
      {text_input + "," + sized("stream", "BOOL", 2), "aa", "stream"},
      {text_input + "," + sized("temperature", "FP32", 4), not_a_number, "temperature"},
      {text_input, "left over", "inputs"},
  };
  for (const auto& r : rows) {
    CAPTURE(r.inputs);
    const auto read = read_infer(infer_body(r.inputs), r.bytes);
    REQUIRE_FALSE(read);
    CHECK(read.error().param == r.param);
  }
  const auto body = infer_body(text_input);
  for (const auto* size : {"-1", "x", "1x", "99999999999999999999", "0", "1000000"}) {
    CAPTURE(size);
    CHECK(parse_infer(body, size, testing::default_config.request).error().param ==
          "Inference-Header-Content-Length");
  }
}

TEST_CASE("unknown parameters and outputs are refused by name") {
  for (const auto* name :
       {"colour", "best_of", "echo", "model", "prompt", "request_id", "lora_name", "beam_width",
        "bad_words", "prompt_logprobs", "length_penalty"}) {
    CAPTURE(name);
    const auto r = read_generate(fmt::format(R"({{"text_input":"hi","{}":7}})", name));
    REQUIRE_FALSE(r);
    CHECK(r.error().param == name);
    const bool is_known_there = std::string_view(name) != "colour"; // of vLLM's or TensorRT-LLM's
    CHECK((r.error().message.find("is not supported") != std::string::npos) == is_known_there);
  }
  for (const auto* outputs :
       {R"([{"name":"logits"}])", R"([{"name":"text_output"},{"name":"text_output"}])",
        R"([{"name":"text_output","parameters":{"classification":3}}])", "7"}) {
    CAPTURE(outputs);
    CHECK_FALSE(read_infer(infer_body(text_input, fmt::format(R"(,"outputs":{})", outputs))));
  }
  std::string many = R"({"text_input":"hi")";
  for (std::size_t i = 0; i <= kserve_parameters_max; ++i) {
    many += fmt::format(R"(,"p{}":1)", i);
  }
  CHECK(read_generate(many + "}").error().code == errc::invalid_value);
  for (const auto* body :
       {"", "[]", "{}", "{", R"({"text_input":null})", R"({"text_input":1})",
        R"({"text_input":["a","b"]})", R"({"text_input":"a","parameters":1})",
        R"({"text_input":"a","id":1})", R"({"text_input":"a","parameters":{"text_input":"b"}})",
        R"({"text_input":"a","sampling_parameters":"[]"})",
        R"({"text_input":"a","sampling_parameters":"{"})"}) {
    CAPTURE(body);
    CHECK_FALSE(read_generate(body));
  }
}

TEST_CASE("every listed parameter is accepted") {
  for (const auto& name : kserve_parameters(testing::default_config)) {
    CAPTURE(name);
    const auto r = read_generate(fmt::format(R"({{"text_input":"hi","{}":[[["no"]]]}})", name));
    REQUIRE_FALSE(r);
    CHECK(r.error().message.find("there is no parameter") == std::string::npos);
  }
}
