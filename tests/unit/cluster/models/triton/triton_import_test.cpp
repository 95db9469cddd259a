// Repositories from Triton's documentation, and common mistakes.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/formats/pbtxt.hpp"
#include "cluster/models/triton/triton_import.hpp"
#include "tests/unit/cluster/import/imported.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;
using baton::testing::imported;
using nlohmann::json;

namespace {

imported import_of_models(const std::vector<triton_model>& models,
                          const std::string& llm = "m.gguf") {
  auto made = import_triton(models, llm, "");
  REQUIRE_MESSAGE(made, made.error().message);
  auto config = parse_config(made->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", made->toml);
  return {*config, made->notes};
}

std::string triton_refusal(const std::vector<triton_model>& models,
                           const std::string& llm = "m.gguf") {
  const auto made = import_triton(models, llm, "");
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_config);
  return made.error().message;
}

triton_model python(const std::string& config, std::vector<std::uint32_t> versions = {1}) {
  return {"repo/add_sub", "backend: \"python\"\n" + config, std::move(versions), ""};
}

} // namespace

TEST_CASE("models of handlers need no LLM") {
  const auto made = import_of_models({python("max_batch_size: 4\n")}, "");
  CHECK(made.config.models.empty());
  CHECK(made.config.workers.size() == 1);
}

TEST_CASE(
    "notes about the server's listeners stand once, and not for a repository that is served") {
  const auto vllm = [](const char* name) {
    return triton_model{std::string("repo/") + name,
                        "backend: \"vllm\"",
                        {1},
                        R"({"model": "m.gguf", "colour": 1})"};
  };
  const std::vector<triton_model> both{vllm("a"), vllm("b")};
  const auto count_of = [](const std::vector<std::string>& notes, std::string_view what) {
    return std::count_if(notes.begin(), notes.end(), [&](const std::string& note) {
      return note.find(what) != std::string::npos;
    });
  };
  const auto made = import_of_models(both, "");
  CHECK(count_of(made.notes, "gateway.http is only for this machine") == 1);
  CHECK(count_of(made.notes, "--colour IS NOT KNOWN") == 2);
  const auto served = import_triton_llms(both);
  REQUIRE(served);
  CHECK(count_of(served->notes, "gateway.") == 0);
  CHECK(count_of(served->notes, "--colour IS NOT KNOWN") == 2);
}

TEST_CASE("protobuf's text is parsed without a schema") {
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

TEST_CASE("invalid protobuf text is refused with its line") {
  std::string deep;
  for (int i = 0; i < 100; ++i)
    deep += "a {";
  const std::vector<std::pair<std::string, const char*>> wrong{
      {"a: 1\nb 2", "line 2: ':' is missing"},     {"a: \"x\n\"", "line 1: a string does not end"},
      {"a {", "the name of a field is missing"},   {"a: [1 2]", "',' or ']' is missing"},
      {"a: 1.2.3", "'1.2.3' is no number"},        {"a: }", "a value is missing"},
      {"a: '\\777'", "an escape is out of range"}, {"5: 1", "the name of a field is missing"},
      {deep, "there are too many levels"},         {std::string("a: 1\0b", 6), "a byte of zero"},
  };
  for (const auto& [text, why] : wrong) {
    CAPTURE(text);
    const auto read = parse_pbtxt(text);
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find(why) != std::string::npos);
  }
}

TEST_CASE("a model of the Python backend becomes a worker") {
  const auto [config, notes] = import_of_models({python(R"(
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
  CHECK(w.preferred_batch_size == std::vector<std::uint32_t>{8, 16});
  CHECK(w.max_queued == 32);
  CHECK(config.model.path == "m.gguf");
  const imported all{config, notes};
  for (const auto* notice :
       {"version 12 alone", "sequence_batching is left out", "colour IS NOT KNOWN"})
    CHECK_MESSAGE(all.mentions(notice), std::string(notice));
}

TEST_CASE("unused fields are reported with their path, at any depth") {
  const auto made = import_of_models({python(R"(
max_batch_size: 4
input { name: "A" data_type: TYPE_FP32 dims: [ 1 ] optinal: true }
dynamic_batching { max_queue_dely_microseconds: 5 default_queue_policy { max_queue_sze: 1 } }
version_policy { lates { num_versions: 1 } }
parameters { key: "a" value { string_valu: "b" } }
model_metrics { metric_control { metric_identifier { family: "f" } } }
metric_tags { key: "a" value: "b" }
)")});
  for (const auto* notice :
       {"optinal IS NOT KNOWN", "max_queue_dely_microseconds IS NOT KNOWN",
        "max_queue_sze IS NOT KNOWN", "lates IS NOT KNOWN", "string_valu IS NOT KNOWN",
        "model_metrics is left out", "metric_tags is left out: the labels"})
    CHECK_MESSAGE(made.mentions(notice), std::string(notice));
}

TEST_CASE("a missing value is Triton's default, if there is one") {
  const auto plain = import_of_models({python("max_batch_size: 8")});
  CHECK(plain.config.workers[0].batch_size == 1); // no batches by default
  CHECK(plain.config.workers[0].count == 1);
  CHECK(plain.config.workers[0].max_batch_delay.count() == 0);
  CHECK(plain.mentions("a queue has a bound here"));
  CHECK(plain.mentions("as without dynamic_batching"));
  const auto batching = import_of_models({python("max_batch_size: 8 dynamic_batching {}")});
  CHECK(batching.config.workers[0].batch_size == 8);
}

TEST_CASE("queues, priorities and timeouts are those of dynamic_batching") {
  const auto made = import_of_models({python(R"(
max_batch_size: 8
dynamic_batching {
  max_queue_delay_microseconds: 150
  priority_levels: 3 default_priority_level: 2
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 2500
    allow_timeout_override: true max_queue_size: 10 }
  priority_queue_policy { key: 1 value { timeout_action: REJECT max_queue_size: 4 } }
  priority_queue_policy { key: 3 value { default_timeout_microseconds: 1000000 max_queue_size: 6 } }
}
)")});
  const auto& w = made.config.workers[0];
  CHECK(w.max_batch_delay == std::chrono::microseconds(150));
  CHECK(w.priority_levels == 3);
  CHECK(w.default_priority_level == 2);
  const schedule::queue_policy rest{std::chrono::microseconds(2500), true, true, 10};
  CHECK(w.queue_policy == schedule::queue_policy{rest.timeout, true, true, 0});
  // A value that a level's policy omits is not the default policy's.
  CHECK(w.priority_queue_policy == std::map<std::uint32_t, schedule::queue_policy>{
                                       {1, {std::chrono::microseconds(0), false, false, 4}},
                                       {2, rest},
                                       {3, {std::chrono::seconds(1), false, false, 6}}});
  CHECK(w.max_queued == 20);
  CHECK_FALSE(made.mentions("left out"));
}

TEST_CASE("a level without a limit keeps our queue's") {
  const auto made =
      import_of_models({python(R"(dynamic_batching { priority_levels: 2 default_priority_level: 1
  priority_queue_policy { key: 2 value { max_queue_size: 6 } } })")});
  CHECK(made.config.workers[0].max_queued == 100);
  CHECK(made.config.workers[0].priority_queue_policy.size() == 1);
  CHECK(made.mentions("max_queued is 100"));
}

TEST_CASE("the order of answers is preserved where Triton preserves it") {
  const auto made = import_of_models({python("dynamic_batching { preserve_ordering: true }")});
  CHECK(made.config.workers[0].preserve_ordering);
  const char* wrong[] = {
      "preserve_ordering: true priority_levels: 2 default_priority_level: 1",
      "preserve_ordering: true default_queue_policy { timeout_action: DELAY }",
  };
  for (const auto* one : wrong)
    CHECK(triton_refusal({python(fmt::format("dynamic_batching {{ {} }}", one))})
              .find("preserve_ordering") != std::string::npos);
}

TEST_CASE("impossible values of dynamic_batching are refused by name") {
  const std::pair<const char*, const char*> wrong[] = {
      {"preferred_batch_size: [ 4, 9 ]", "preferred_batch_size: an integer from 1 to 8"},
      {"priority_levels: 65", "priority_levels"},
      {"priority_levels: 2", "default_priority_level"},
      {"priority_levels: 2 default_priority_level: 3", "default_priority_level"},
      {"default_queue_policy { timeout_action: LATER }", "timeout_action: REJECT or DELAY"},
      {"default_queue_policy { allow_timeout_override: 1 }", "allow_timeout_override"},
      {"preserve_ordering: \"yes\"", "preserve_ordering: true or false"},
      {"priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value {} }",
       "priority_queue_policy.key"},
      {"priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 1 value { "
       "max_queue_size: -1 } }",
       "max_queue_size"},
  };
  for (const auto& [text, why] : wrong) {
    CAPTURE(text);
    CHECK(triton_refusal({python(fmt::format("max_batch_size: 8 dynamic_batching {{ {} }}", text))})
              .find(why) != std::string::npos);
  }
}

TEST_CASE("a model's file is in its version's directory") {
  for (const auto* file : {"/etc/passwd", "../2/model.py", "a/../../model.py", ".."}) {
    CAPTURE(file);
    CHECK(triton_refusal({python(fmt::format("default_model_filename: \"{}\"", file))})
              .find("leads out of the version's directory") != std::string::npos);
  }
  const auto made = import_of_models({python("default_model_filename: \"sub/other.py\"")});
  CHECK(made.config.workers.at(0).command.back().ends_with("/1/sub/other.py"));
}

TEST_CASE("models of ONNX Runtime and of PyTorch become workers of their platform") {
  const auto made = import_of_models({
      {"r/a", "platform: \"onnxruntime_onnx\" optimization { graph { level: 1 } }", {1, 2}, ""},
      {"r/b", "backend: \"onnxruntime\" default_model_filename: \"b.onnx\"", {1}, ""},
      {"r/c", "platform: \"pytorch_libtorch\"", {1}, ""},
      {"r/d", "backend: \"pytorch\"", {1}, ""},
      {"r/e", "backend: \"pytorch\" platform: \"torch_aoti\"", {1}, ""},
  });
  REQUIRE(made.config.workers.size() == 5);
  const std::pair<const char*, const char*> commands[] = {
      {"baton_worker.onnx", "r/a/2/model.onnx"},
      {"baton_worker.onnx", "r/b/1/b.onnx"},
      {"baton_worker.torchscript", "r/c/1/model.pt"},
      {"baton_worker.torchscript", "r/d/1/model.pt"},
      {"baton_worker.torchscript", "r/e/1/model.pt2"},
  };
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(made.config.workers[i].command ==
          std::vector<std::string>{"python3", "-m", commands[i].first, commands[i].second});
  CHECK_FALSE(made.mentions("optimization")); // the platform reads it
}

TEST_CASE("inputs and outputs of a model are those of its worker") {
  const auto made = import_of_models({python(R"(
max_batch_size: 8
input [{ name: "IN \"0\"" data_type: TYPE_FP32 dims: [ -1, 4 ] reshape: { shape: [ 4 ] } },
       { name: "TEXT" data_type: TYPE_STRING dims: 1 optional: true }]
output { name: "OUT" data_type: TYPE_INT64 }
model_transaction_policy { decoupled: True }
)")});
  const auto& w = made.config.workers[0];
  CHECK(w.platform == "python");
  CHECK(w.max_batch_size == 8);
  CHECK(w.decoupled);
  using gateway::worker_tensor;
  CHECK(w.inputs == std::vector{worker_tensor{"IN \"0\"", "FP32", {-1, 4}, false},
                                worker_tensor{"TEXT", "BYTES", {1}, true}});
  CHECK(w.outputs == std::vector{worker_tensor{"OUT", "INT64", {}, false}});
  CHECK_FALSE(made.mentions("input.reshape is left out")); // the worker handles it
  for (const auto* config :
       {"input { name: \"A\" data_type: TYPE_FLOAT dims: [ 1 ] }", "input { data_type: TYPE_FP32 }",
        "input { name: \"A\" data_type: TYPE_FP32 dims: [ 0 ] }",
        "input { name: \"A\" data_type: TYPE_FP32 dims: [ 2000000000, 2000000000 ] }", "input: 1",
        "output [{ name: \"A\" data_type: TYPE_FP32 }, { name: \"A\" data_type: TYPE_FP32 }]"}) {
    CAPTURE(config);
    CHECK(triton_refusal({python(config)}).find("put") != std::string::npos);
  }
}

TEST_CASE("a model of the vLLM backend becomes the LLM") {
  const triton_model llm{"repo/vllm_model",
                         "backend: \"vllm\" instance_group { count: 2 kind: KIND_MODEL }"
                         "dynamic_batching { default_queue_policy { max_queue_size: 9 } }",
                         {1},
                         R"({"model": "models/opt", "gpu_memory_utilization": 0.5,
                             "enforce_eager": true, "disable_log_requests": true,
                             "max_model_len": 2048, "enable_prefix_caching": false})"};
  const auto made = import_of_models({llm, python("")}, "");
  CHECK(made.config.model.path == "models/opt");
  CHECK(made.config.model.name == "vllm_model"); // the name that its clients use
  CHECK(made.config.model.max_model_len == 2048);
  CHECK(made.config.model.replicas == 2);
  CHECK(made.config.model.max_num_queued_reqs == 9);
  CHECK(made.config.workers.size() == 1);
  CHECK(made.mentions("vllm_model: --gpu-memory-utilization is left out"));
  auto more = llm;
  more.config =
      "backend: \"vllm\" colour: 1 sequence_batching { }"
      "dynamic_batching { priority_levels: 2 default_queue_policy { timeout_action: DELAY } }"
      "parameters { key: \"REPORT_CUSTOM_METRICS\" value { string_value: \"true\" } }";
  const auto import_result = import_of_models({more, python("")}, "");
  for (const auto* notice :
       {"vllm_model: colour IS NOT KNOWN", "vllm_model: sequence_batching is left out",
        "dynamic_batching.priority_levels is left out", "timeout_action is left out"})
    CHECK_MESSAGE(import_result.mentions(notice), std::string(notice));
  auto broken = llm;
  broken.engine = "[";
  CHECK(triton_refusal({broken}).find("model.json") != std::string::npos);
}

TEST_CASE("several models of the vLLM backend become several models") {
  const auto vllm = [](const char* name, const char* engine) {
    return triton_model{std::string("repo/") + name, "backend: \"vllm\"", {1}, engine};
  };
  const std::vector<triton_model> llms{
      vllm("small", R"({"model": "models/a", "max_model_len": 2048,
                        "override_generation_config": {"temperature": 0.5}})"),
      vllm("large", R"({"model": "models/b", "tensor_parallel_size": 2,
                        "override_generation_config": {"temperature": 0.25}})")};
  const auto made = import_of_models({llms[0], python(""), llms[1]}, "");
  REQUIRE(made.config.models.size() == 2);
  CHECK(made.config.models[0].name == "small");
  CHECK(made.config.models[0].path == "models/a");
  CHECK(made.config.models[0].max_model_len == 2048);
  CHECK(made.config.models[0].sampling.temperature == 0.5F);
  CHECK(made.config.models[1].name == "large");
  CHECK(made.config.models[1].path == "models/b");
  CHECK(made.config.models[1].tensor_parallel_size == 2);
  CHECK(made.config.models[1].sampling.temperature == 0.25F);
  CHECK(made.config.workers.size() == 1);
  CHECK(triton_refusal(llms).find("small and large are LLMs") != std::string::npos);
  const auto alone = import_triton_llms(llms);
  REQUIRE(alone);
  CHECK(alone->toml.starts_with("\n[[models]]\n"));
  CHECK(alone->toml.find("[gateway]") == std::string::npos);
  const std::vector<triton_model> handlers{python("")};
  CHECK(import_triton_llms(handlers)->toml.empty());
  const auto bounded = import_triton_llms(llms, 64);
  REQUIRE(bounded);
  const auto config = parse_config(bounded->toml, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message, "\n", bounded->toml);
  CHECK(config->models[0].sampling.temperature == 0.5F);
  CHECK(config->models[0].sampling.max_tokens == 64);
  CHECK(config->models[1].sampling.max_tokens == 64);
  const auto first = import_triton_llms(std::span(llms).first(1), 64);
  CHECK(parse_config(first->toml, "nodes.toml")->model.sampling.max_tokens == 64);
}

TEST_CASE("unsupported fields are reported, and errors are refused by name") {
  const auto made =
      import_of_models({{"repo/plan", "platform: \"tensorrt_plan\"", {1}, ""},
                        {"repo/eager", "backend: \"pytorch\" runtime: \"model.py\"", {1}, ""},
                        {"repo/chain", "platform: \"ensemble\"", {1}, ""},
                        {"repo/trt", "backend: \"tensorrtllm\"", {1}, ""}});
  CHECK(made.config.workers.empty());
  CHECK(made.mentions("plan: LEFT OUT: an engine of TensorRT (tensorrt_plan) runs only with"));
  CHECK(made.mentions("is served as platform onnxruntime_onnx"));
  CHECK(triton_refusal({{"repo/engine", "backend: \"tensorrt\"", {1}, ""}}, "")
            .find("engine: LEFT OUT: an engine of TensorRT") != std::string::npos);
  CHECK(made.mentions("eager: LEFT OUT: 'pytorch' needs a handler"));
  CHECK(made.mentions("chain: LEFT OUT"));
  CHECK(made.mentions("trt: LEFT OUT"));
  CHECK(triton_refusal({{"repo/plan", "platform: \"tensorrt_plan\"", {1}, ""}}, "")
            .find("none of its models can be served: plan: LEFT OUT") != std::string::npos);
  CHECK(triton_refusal({python("", {})}).find("has no version") != std::string::npos);
  CHECK(triton_refusal({python("max_batch_size: -1")}).find("add_sub.max_batch_size") !=
        std::string::npos);
  CHECK(triton_refusal({python("dynamic_batching: 1")}).find("add_sub.dynamic_batching") !=
        std::string::npos);
  CHECK(
      triton_refusal({python("instance_group { count: \"two\" }")}).find("instance_group.count") !=
      std::string::npos);
  CHECK(triton_refusal({python("a: {")}).find("add_sub/config.pbtxt: line 2") != std::string::npos);
  CHECK(triton_refusal({{"repo/a b", "backend: \"python\"", {1}, ""}}).find("'a b'") !=
        std::string::npos);
}
