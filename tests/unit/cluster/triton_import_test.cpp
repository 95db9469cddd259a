// Repositories as Triton's documentation shows them, and as people get them wrong.
#include "cluster/config.hpp"
#include "cluster/pbtxt.hpp"
#include "cluster/triton_import.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;
using nlohmann::json;

namespace {

struct imported {
  cluster_config config;
  std::vector<std::string> notes;

  bool mentions(std::string_view what) const {
    return std::any_of(notes.begin(), notes.end(),
                       [&](const auto& n) { return n.find(what) != std::string::npos; });
  }
};

imported import_of(const std::vector<triton_model>& models, const std::string& llm = "m.gguf") {
  auto made = import_triton(models, llm, "");
  REQUIRE_MESSAGE(made, made.error().message);
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  return {*config, made->notes};
}

std::string refusal(const std::vector<triton_model>& models, const std::string& llm = "m.gguf") {
  const auto made = import_triton(models, llm, "");
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_config);
  return made.error().message;
}

triton_model python(const std::string& config, std::vector<std::uint32_t> versions = {1}) {
  return {"repo/add_sub", "backend: \"python\"\n" + config, std::move(versions), ""};
}

} // namespace

TEST_CASE("protobuf's text is read without a schema") {
  const auto read = parse_pbtxt(R"(
# of a model
name: "add" 'sub'   max_batch_size: 8; ratio: 1.5f, is_on: true
input [ { name: "A" dims: [ -1, 0x10 ] }, < name: "B\n\"\x41\101" > ]
input { name: "C", kind: KIND_CPU }
nothing {}
)");
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(json(*read) == json{{"name", {"addsub"}},
                            {"max_batch_size", {8}},
                            {"ratio", {1.5}},
                            {"is_on", {true}},
                            {"input",
                             {{{"name", {"A"}}, {"dims", {-1, 16}}},
                              {{"name", {"B\n\"AA"}}},
                              {{"name", {"C"}}, {"kind", {"KIND_CPU"}}}}},
                            {"nothing", json::array({json::object()})}});
}

TEST_CASE("what is no text of protobuf's is refused with its line") {
  std::string deep;
  for (int i = 0; i < 100; ++i)
    deep += "a {";
  const std::vector<std::pair<std::string, const char*>> wrong{
      {"a: 1\nb 2", "line 2: ':' is missing"},   {"a: \"x\n\"", "line 1: a text does not end"},
      {"a {", "the name of a field is missing"}, {"a: [1 2]", "',' or ']' is missing"},
      {"a: 1.2.3", "'1.2.3' is no number"},      {"a: }", "a value is missing"},
      {"a: '\\777'", "an escape is no byte"},    {"5: 1", "the name of a field is missing"},
      {deep, "there are too many levels"},       {std::string("a: 1\0b", 6), "a byte of zero"},
  };
  for (const auto& [text, why] : wrong) {
    CAPTURE(text);
    const auto read = parse_pbtxt(text);
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find(why) != std::string::npos);
  }
}

TEST_CASE("a model of the Python backend becomes a worker") {
  const auto [config, notes] = import_of({python(R"(
name: "add_sub"
max_batch_size: 64
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }]
instance_group [{ count: 2 kind: KIND_CPU }, { kind: KIND_CPU }]
dynamic_batching { max_queue_delay_microseconds: 5000 preferred_batch_size: [ 8, 16 ]
  default_queue_policy { max_queue_size: 32 } }
sequence_batching {} colour: 1
)",
                                                 {1, 12, 3})});
  REQUIRE(config.workers.size() == 1);
  const auto& w = config.workers[0];
  CHECK(w.name == "add_sub");
  CHECK(w.version == "12");
  CHECK(w.command == std::vector<std::string>{"python3", "-m", "baton_worker.triton",
                                              "repo/add_sub/12/model.py"});
  CHECK(w.count == 3);
  CHECK(w.batch_size == 64);
  CHECK(w.max_batch_delay == std::chrono::microseconds(5000));
  CHECK(w.max_queued == 32);
  CHECK(config.model.path == "m.gguf");
  const imported all{config, notes};
  for (const auto* said : {"version 12 alone", "preferred_batch_size is left out",
                           "sequence_batching is left out", "colour is left out"})
    CHECK_MESSAGE(all.mentions(said), said);
}

TEST_CASE("what a model does not say is Triton's default, as far as there is one") {
  const auto plain = import_of({python("max_batch_size: 8")});
  CHECK(plain.config.workers[0].batch_size == 1); // nothing is put together without being asked
  CHECK(plain.config.workers[0].count == 1);
  CHECK(plain.config.workers[0].max_batch_delay.count() == 0);
  CHECK(plain.mentions("a queue has a bound here"));
  CHECK(plain.mentions("as without dynamic_batching"));
  const auto batching = import_of({python("max_batch_size: 8 dynamic_batching {}")});
  CHECK(batching.config.workers[0].batch_size == 8);
}

TEST_CASE("a model of the vLLM backend becomes the LLM") {
  const triton_model llm{"repo/vllm_model",
                         "backend: \"vllm\" instance_group { count: 2 kind: KIND_MODEL }"
                         "dynamic_batching { default_queue_policy { max_queue_size: 9 } }",
                         {1},
                         R"({"model": "models/opt", "gpu_memory_utilization": 0.5,
                             "enforce_eager": true, "disable_log_requests": true,
                             "max_model_len": 2048, "enable_prefix_caching": false})"};
  const auto made = import_of({llm, python("")}, "");
  CHECK(made.config.model.path == "models/opt");
  CHECK(made.config.model.name == "vllm_model"); // as its clients ask for it
  CHECK(made.config.model.max_model_len == 2048);
  CHECK(made.config.model.replicas == 2);
  CHECK(made.config.model.max_num_queued_reqs == 9);
  CHECK(made.config.workers.size() == 1);
  CHECK(made.mentions("vllm_model: --gpu-memory-utilization is left out"));
  CHECK(refusal({llm, llm}).find("second LLM") != std::string::npos);
  auto broken = llm;
  broken.engine = "[";
  CHECK(refusal({broken}).find("model.json") != std::string::npos);
}

TEST_CASE("what cannot be taken over is said, and what is wrong is refused by its name") {
  const auto made = import_of({{"repo/resnet", "platform: \"onnxruntime_onnx\"", {1}, ""},
                               {"repo/chain", "platform: \"ensemble\"", {1}, ""},
                               {"repo/trt", "backend: \"tensorrtllm\"", {1}, ""}});
  CHECK(made.config.workers.empty());
  CHECK(made.mentions("resnet: LEFT OUT: 'onnxruntime_onnx' needs a handler"));
  CHECK(made.mentions("chain: LEFT OUT"));
  CHECK(made.mentions("trt: LEFT OUT"));
  CHECK(refusal({python("")}, "").find("--model") != std::string::npos);
  CHECK(refusal({python("", {})}).find("has no version") != std::string::npos);
  CHECK(refusal({python("max_batch_size: -1")}).find("add_sub.max_batch_size") !=
        std::string::npos);
  CHECK(refusal({python("dynamic_batching: 1")}).find("add_sub.dynamic_batching") !=
        std::string::npos);
  CHECK(refusal({python("instance_group { count: \"two\" }")}).find("instance_group.count") !=
        std::string::npos);
  CHECK(refusal({python("a: {")}).find("add_sub/config.pbtxt: line 2") != std::string::npos);
  CHECK(refusal({{"repo/a b", "backend: \"python\"", {1}, ""}}).find("'a b'") != std::string::npos);
}
