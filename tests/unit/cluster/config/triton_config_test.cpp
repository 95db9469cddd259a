#include "cluster/config/readers/triton_config.hpp"
#include "cluster/formats/pbtxt.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;
using nlohmann::ordered_json;

namespace {

result<given_config> given(std::string_view text) {
  const auto parsed = parse_pbtxt(text);
  REQUIRE(parsed);
  return given_config_of(*parsed);
}

} // namespace

TEST_CASE("config.pbtxt becomes JSON, each field by its type") {
  const auto made = given(R"(
    name: "m" backend: "python" max_batch_size: 8
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1, 2 ] reshape { shape: [2] } },
            { name: "R" data_type: 13 dims: 1 allow_ragged_batch: 1 } ]
    batch_input { kind: BATCH_ELEMENT_COUNT target_name: "COUNT" source_input: "IN" }
    instance_group [ { kind: KIND_GPU count: 2 gpus: [0, 1]
                       rate_limiter { resources { name: "R1" count: 4 } } } ]
    optimization { graph { level: 1 } eager_batching: true
      execution_accelerators { gpu_execution_accelerator : [
        { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } } ] } }
    dynamic_batching { preferred_batch_size: [ 4, 8 ]
                       priority_queue_policy { key: 1 value { timeout_action: DELAY } } }
    parameters { key: "A" value { string_value: "x\"y" } }
    parameters { key: "B" value { string_value: "" } }
    parameters { key: "C" }
    metric_tags { key: "team" value: "vision" }
    model_warmup [ { name: "w" batch_size: 1
                     inputs { key: "IN" value { data_type: TYPE_FP32 dims: 2 zero_data: true } } } ]
    model_metrics { metric_control [ { metric_identifier { family: "f" }
                                       histogram_options { buckets: [1, 2.5] } } ] }
    response_cache { enable: true })");
  REQUIRE(made);
  CHECK(made->unknown.empty());
  CHECK(made->json == ordered_json::parse(R"({
    "name": "m", "backend": "python", "max_batch_size": 8,
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1, 2], "reshape": {"shape": [2]}},
              {"name": "R", "data_type": "TYPE_STRING", "dims": [1], "allow_ragged_batch": true}],
    "batch_input": [{"kind": "BATCH_ELEMENT_COUNT", "target_name": ["COUNT"], "source_input": ["IN"]}],
    "instance_group": [{"kind": "KIND_GPU", "count": 2, "gpus": [0, 1],
                        "rate_limiter": {"resources": [{"name": "R1", "count": 4}]}}],
    "optimization": {"graph": {"level": 1}, "eager_batching": true,
      "execution_accelerators": {"gpu_execution_accelerator":
        [{"name": "tensorrt", "parameters": {"precision_mode": "FP16"}}]}},
    "dynamic_batching": {"preferred_batch_size": [4, 8],
                         "priority_queue_policy": {"1": {"timeout_action": "DELAY"}}},
    "parameters": {"A": {"string_value": "x\"y"}, "B": {"string_value": ""}, "C": {}},
    "metric_tags": {"team": "vision"},
    "model_warmup": [{"name": "w", "batch_size": 1,
                      "inputs": {"IN": {"data_type": "TYPE_FP32", "dims": [2], "zero_data": true}}}],
    "model_metrics": {"metric_control": [{"metric_identifier": {"family": "f"},
                                          "histogram_options": {"buckets": [1, 2.5]}}]},
    "response_cache": {"enable": true}})"));
  CHECK(check_triton_config(made->json.dump()));
}

TEST_CASE("a value of another type than its field is refused by the field's name") {
  for (const auto& [text, path] : {
           std::pair("optimization { graph { level: \"high\" } }", "optimization.graph.level"),
           std::pair("instance_group { kind: KIND_TPU }", "instance_group.kind"),
           std::pair("instance_group { kind: 4 }", "instance_group.kind"),
           std::pair("instance_group { kind: -1 }", "instance_group.kind"),
           std::pair("instance_group: 3", "instance_group"),
           std::pair("parameters: \"x\"", "parameters"),
           std::pair("parameters { key: \"A\" value { string_value: 3 } }",
                     "parameters.A.string_value"),
           std::pair("response_cache { enable: 2 }", "response_cache.enable"),
           std::pair("metric_tags { key: \"a\" value: 3 }", "metric_tags.a"),
       }) {
    CAPTURE(text);
    const auto made = given(text);
    REQUIRE_FALSE(made);
    CHECK(made.error().code == errc::bad_config);
    CHECK(made.error().message.starts_with(std::string(path) + " must be "));
  }
}

TEST_CASE("a field unknown to Triton is named and left out") {
  const auto made = given("backend: \"python\" optimisation { } input { name: \"a\" dim: 3 }");
  REQUIRE(made);
  CHECK(made->unknown == std::vector<std::string>{"optimisation", "input.dim"});
  CHECK(made->json == ordered_json::parse(R"({"backend":"python","input":[{"name":"a"}]})"));
}

TEST_CASE("the config of a nodes.toml is checked as well") {
  CHECK(check_triton_config(R"({"input":[{"name":"a","dims":[1]}],"parameters":{"k":{}}})"));
  for (const auto* wrong :
       {"", "[]", "{", R"({"x":1})", R"({"input":{}})", R"({"input":[1]})", R"({"parameters":[]})",
        R"({"max_batch_size":"8"})", R"({"optimization":{"graph":{"level":1.5}}})",
        R"({"input":[{"data_type":"FP32"}]})",
        R"({"input":[{"data_type":"TYPE_BOOL TYPE_INT8"}]})"}) {
    CAPTURE(wrong);
    CHECK_FALSE(check_triton_config(wrong));
  }
  const auto large = R"({"name":")" + std::string(triton_config_bytes_max, 'x') + "\"}";
  CHECK(check_triton_config(large).error().message.find("bytes") != std::string::npos);
}
