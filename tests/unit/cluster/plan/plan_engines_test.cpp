// Devices whose engines are in libraries: their names, their part in the plan, and refusals.
#include "cluster/plan/model_fit.hpp"
#include "cluster/plan/plan_engines.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

cluster_config on(std::vector<std::string> devices, std::uint32_t ranks = 1) {
  cluster_config c;
  c.name = "t";
  c.model.name = "m";
  c.model.tensor_parallel_size = ranks;
  c.model.pipeline_parallel_size = static_cast<std::uint32_t>(devices.size()) / ranks;
  c.nodes = {{"a", "127.0.0.1", std::move(devices), "", "", false}};
  return c;
}

machines one_machine(std::uint64_t memory = 8ull << 30) {
  return {{root_machine, machine_facts{{0, 1, 2, 3}, memory}}};
}

std::string engine_refusal(const cluster_config& config, std::string_view key) {
  const auto plan = make_plan(config, small_model(), one_machine());
  REQUIRE(!plan);
  CHECK(plan.error().param == key);
  return plan.error().message;
}

} // namespace

TEST_CASE("devices are parsed as cores, as a GPU's number, or as an engine and its device") {
  CHECK(parse_device("cpu:1-2")->is_native());
  const auto gpu = parse_device("cuda:3");
  REQUIRE(gpu);
  CHECK(gpu->engine == "torch");
  CHECK(gpu->at == "cuda:3");
  CHECK(gpu->has_own_memory());
  const auto tensors = parse_device("cpu-torch");
  REQUIRE(tensors);
  CHECK(tensors->engine == "torch");
  CHECK(!tensors->has_own_memory());
  const auto other = parse_device("neuron/nc:0,nc:1");
  REQUIRE(other);
  CHECK(other->engine == "neuron");
  CHECK(other->at == "nc:0,nc:1");
  for (const auto* wrong : {"cuda", "cuda:", "cuda:x", "cuda:0-1", "gpu:0", "/x", "a/", "a b/c",
                            "neuron/nc 0", "../x/y", ""}) {
    CAPTURE(wrong);
    const auto none = parse_device(wrong);
    // "../x/y" names an engine "..", which is not a valid name.
    REQUIRE(!none);
    CHECK(none.error().message.find("ENGINE/DEVICE") != std::string::npos);
  }
}

TEST_CASE("weights that grow in memory beyond the overhead are counted as packed") {
  const auto planned = [](std::map<model::tensor_type, std::uint64_t> types) {
    auto description = small_model();
    description.type_bytes = std::move(types);
    const auto plan = make_plan(on({"cpu:0"}), description, one_machine());
    REQUIRE_MESSAGE(plan, plan.error().message);
    const auto& shard = plan->shards[0];
    return static_cast<double>(shard.machine_bytes) / static_cast<double>(shard.weight_bytes);
  };
  using enum model::tensor_type;
  CHECK(planned({}) == 1.0);
  CHECK(planned({{q4_1, 1000}, {f32, 10}}) == 1.0);
  CHECK(planned({{iq4_xs, 1000}}) == 1.0); // within the overhead
  CHECK(planned({{q2_k, 1000}}) == doctest::Approx(8 / 2.625 / weight_overhead));
  CHECK(planned({{q2_k, 1000}, {q8_0, 1000}}) ==
        doctest::Approx((8 / 2.625 + 1) / 2 / weight_overhead));
}

TEST_CASE("a device with its own memory takes no core and none of the machine's memory") {
  const auto plan = make_plan(on({"cuda:0", "cpu:0"}), small_model(), one_machine());
  REQUIRE_MESSAGE(plan, plan.error().message);
  const auto &gpu = plan->shards[0], &cpu = plan->shards[1];
  CHECK(gpu.on_device.engine == "torch");
  CHECK(gpu.cores.empty());
  CHECK(gpu.threads == 4); // to load with
  CHECK(gpu.machine_bytes == 0);
  CHECK(gpu.weight_bytes > 0);
  CHECK(cpu.cores == std::vector<std::uint32_t>{0});
  CHECK(cpu.machine_bytes == cpu.weight_bytes);
  // Its speed is unknown: the layers are split as for two equal ones.
  const auto alike = make_plan(on({"cpu:0", "cpu:1"}), small_model(), one_machine());
  REQUIRE(alike);
  CHECK(gpu.layers == alike->shards[0].layers);
  // Its KV does not count either: it fits a machine with memory for half of it.
  auto config = on({"cuda:0"});
  config.model.kv_cache_bytes = 6ull << 30;
  CHECK(make_plan(config, small_model(), one_machine(1ull << 30)));
  CHECK(!make_plan(on({"cpu-torch"}), small_model(), one_machine(200ull << 20)));
}

TEST_CASE("weights have the requested type, or the device's own") {
  model_config m;
  const auto gpu = *parse_device("cuda:0"), tensors = *parse_device("cpu-torch");
  CHECK(weights_of(m, gpu) == plugin::element::bf16);
  CHECK(weights_of(m, tensors) == plugin::element::f32);
  m.dtype = "float16";
  CHECK(weights_of(m, gpu) == plugin::element::f16);
  CHECK(weights_of(m, tensors) == plugin::element::f16);
  m.dtype = "float32";
  CHECK(weights_of(m, gpu) == plugin::element::f32);
}

TEST_CASE("the memory of weights follows their quantised type") {
  auto config = on({"cpu-torch"});
  const auto model = small_model();
  const auto held = [&](const char* form, std::uint32_t group = 128) {
    config.model.quantization = form;
    config.model.quantization_group_size = group;
    const auto plan = make_plan(config, model, one_machine());
    REQUIRE_MESSAGE(plan, plan.error().message);
    CHECK(plan->shards[0].machine_bytes == held_bytes_of(config.model, model, plan->shards[0]));
    return static_cast<double>(plan->shards[0].machine_bytes);
  };
  const double whole = held("none"), fp8 = held("fp8"), int4 = held("int4"),
               fine = held("int4", 32);
  // float32: the layers' weights take a quarter, an eighth and a bit; the embedding stays.
  const double share =
      static_cast<double>(model.embedding_bytes) /
      static_cast<double>(make_plan(config, model, one_machine())->shards[0].weight_bytes);
  const auto expected = [&](double bytes) { return whole * (share + (1 - share) * bytes / 4); };
  CHECK(fp8 == doctest::Approx(expected(1)));
  CHECK(int4 == doctest::Approx(expected(0.5 + 4.0 / 128)));
  CHECK(fine == doctest::Approx(expected(0.5 + 4.0 / 32)));
  // The same on a GPU, in 16 bits, and none of the machine's memory.
  config = on({"cuda:0"});
  config.model.quantization = "fp8";
  const auto plan = make_plan(config, model, one_machine());
  REQUIRE(plan);
  CHECK(plan->shards[0].machine_bytes == 0);
  CHECK(static_cast<double>(held_bytes_of(config.model, model, plan->shards[0])) ==
        doctest::Approx(whole * (share / 2 + (1 - share) / 4)));
}

TEST_CASE("combinations that engines do not support are refused by key") {
  auto config = on({"cuda:0"});
  config.model.kv_cache_bytes.reset();
  CHECK(engine_refusal(config, "model.kv_cache_bytes").find("device cuda:0: give a size") !=
        std::string::npos);
  config = on({"cpu-torch"});
  config.model.kv_cache_bytes.reset(); // of the machine's memory: it can be "auto"
  CHECK(make_plan(config, small_model(), one_machine()));
  config = on({"cuda:0", "cpu"});
  config.model.kv_cache_dtype = cpu::kv_format::q8_0;
  CHECK(engine_refusal(config, "model.kv_cache_dtype").find("cuda:0") != std::string::npos);
  config = on({"cpu"});
  config.model.dtype = "bfloat16";
  CHECK(engine_refusal(config, "model.dtype").find("leave it out") != std::string::npos);
  config = on({"cpu"});
  config.model.quantization = "fp8";
  CHECK(engine_refusal(config, "model.quantization").find("leave it out") != std::string::npos);
  CHECK(engine_refusal(on({"cuda:0", "cpu"}, 2), "nodes.devices").find("cuda:0 and cpu") !=
        std::string::npos);
  CHECK(make_plan(on({"cuda:0", "cuda:1"}, 2), small_model(), one_machine()));
}
