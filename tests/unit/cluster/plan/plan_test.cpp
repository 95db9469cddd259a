// The plan is pure: configuration, model and machine in, shards out. Plans that do not fit are
// refused by name and number.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/plan/plan.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::cluster;

namespace {

cluster_config two_stages() {
  cluster_config c;
  c.name = "t";
  c.model.name = "m";
  c.model.pipeline_parallel_size = 2;
  c.nodes = {{"a", "127.0.0.1", {"cpu:0", "cpu:1"}, "", "", false}};
  return c;
}

machines alone(machine_facts facts) {
  return {{root_machine, std::move(facts)}};
}

const machines roomy_machine = alone({{4, 6}, 8ull << 30}); // as in a container

} // namespace

TEST_CASE("a two-stage plan gives every layer to one shard and the same blocks to both") {
  auto plan = make_plan(two_stages(), small_model(), roomy_machine);
  REQUIRE(plan);
  REQUIRE(plan->shards.size() == 2);
  CHECK(plan->shards[0].layers.first == 0);
  CHECK(plan->shards[0].layers.has_embedding);
  CHECK(plan->shards[1].layers.first == plan->shards[0].layers.end());
  CHECK(plan->shards[1].layers.end() == 30);
  CHECK(plan->shards[1].layers.has_head);
  CHECK(plan->shards[0].layers.count > plan->shards[1].layers.count);
  CHECK(plan->blocks == (512ull << 20) / (30ull * 2 * 3 * 64 * 2 * 64));
  CHECK(plan->shards[0].kv_bytes + plan->shards[1].kv_bytes <= 512ull << 20);
  CHECK(plan->shards[0].process != plan->shards[1].process);
  CHECK(plan->max_model_len == 8192);
  auto table = plan_table(two_stages(), small_model(), *plan);
  CHECK(table.find("shard-1") != std::string::npos);
  CHECK(plan_json(two_stages(), small_model(), *plan)["stages"] == 2);
}

TEST_CASE("the plan shows the sampling defaults of requests") {
  auto config = two_stages();
  const auto plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE(plan);
  CHECK(plan_table(config, small_model(), *plan).find("sampling") == std::string::npos);
  CHECK(plan_json(config, small_model(), *plan)["sampling"].empty());
  config.model.sampling.temperature = 0.5F;
  config.model.sampling_of_files.top_k = 20;
  CHECK(plan_table(config, small_model(), *plan)
            .find("sampling defaults: temperature 0.5 (nodes.toml); top_k 20 (the "
                  "model's files)\n") != std::string::npos);
  const auto json = plan_json(config, small_model(), *plan)["sampling"];
  CHECK(json == nlohmann::ordered_json{{"temperature", 0.5}, {"top_k", 20}});
}

TEST_CASE("a stage with more threads has more of the layers") {
  auto config = two_stages();
  config.nodes[0].devices = {"cpu:0", "cpu:1-3"};
  const auto plan = make_plan(config, small_model(), alone({{0, 1, 2, 3}, 16ull << 30}));
  REQUIRE(plan);
  CHECK(plan->shards[0].layers.count < 15); // although the other one has the head
  CHECK(plan->shards[1].layers.end() == 30);
}

TEST_CASE("a smaller type of keys and values gives more blocks in the same bytes") {
  auto config = two_stages();
  config.model.kv_cache_bytes = 180ull << 20; // one context in f16
  const auto plan_with = [&](cpu::kv_format format) {
    config.model.kv_cache_dtype = format;
    return make_plan(config, small_model(), roomy_machine);
  };
  const auto f16 = plan_with(cpu::kv_format::f16), q8_0 = plan_with(cpu::kv_format::q8_0);
  REQUIRE(f16);
  REQUIRE(q8_0);
  CHECK(f16->blocks == 128);
  CHECK(q8_0->blocks == 128 * 32 / 17);
  CHECK(q8_0->shards[0].kv_bytes + q8_0->shards[1].kv_bytes <= config.model.kv_cache_bytes);
  CHECK(plan_table(config, small_model(), *q8_0).find("KV q8_0: ") != std::string::npos);
  CHECK(plan_json(config, small_model(), *q8_0)["kv_cache_dtype"] == "q8_0");
  const auto f32 = plan_with(cpu::kv_format::f32);
  REQUIRE_FALSE(f32);
  CHECK(f32.error().message.find("360.0 MiB") != std::string::npos);
}

TEST_CASE("impossible plans are refused by name and number") {
  auto config = two_stages();
  SUBCASE("more stages than devices") {
    config.model.pipeline_parallel_size = 3;
    auto plan = make_plan(config, small_model(), roomy_machine);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().message.find("2 devices") != std::string::npos);
  }
  SUBCASE("a missing core") {
    config.nodes[0].devices[1] = "cpu:7";
    auto plan = make_plan(config, small_model(), roomy_machine);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().message.find("core 7") != std::string::npos);
  }
  SUBCASE("a KV cache smaller than one context") {
    config.model.kv_cache_bytes = 8 << 20;
    auto plan = make_plan(config, small_model(), roomy_machine);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::does_not_fit);
    CHECK(plan.error().message.find("180.0 MiB") != std::string::npos);
  }
  SUBCASE("less memory than the shards need") {
    auto plan = make_plan(config, small_model(), alone({{0, 1}, 100u << 20}));
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::does_not_fit);
    CHECK(plan.error().message.find("100.0 MiB available") != std::string::npos);
  }
  SUBCASE("a context beyond the model's") {
    config.model.max_model_len = 9000;
    auto plan = make_plan(config, small_model(), roomy_machine);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().param == "model.max_model_len");
  }
}

TEST_CASE("a plan warns of more sequences than the KV cache has tokens for") {
  auto config = two_stages();
  auto plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE(plan);
  CHECK(plan_table(config, small_model(), *plan).find("warning") == std::string::npos);
  const auto tokens = plan->blocks * plan->block_positions;
  config.model.max_num_seqs = tokens / 100;
  plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE(plan);
  const auto table = plan_table(config, small_model(), *plan);
  CHECK(table.find(fmt::format("tokens for each of {} sequences", config.model.max_num_seqs)) !=
        std::string::npos);
  CHECK(table.find(fmt::format("lower model.max_num_seqs to {}\n", tokens / 256)) !=
        std::string::npos);
}

TEST_CASE("an automatic KV cache fits the slots, or is half of what the weights leave") {
  constexpr std::uint64_t block = 30ull * 2 * 3 * 64 * 2 * 64;
  auto config = two_stages();
  config.model.kv_cache_bytes.reset();
  config.model.max_num_seqs = 4;
  config.model.max_model_len = 1000; // 16 blocks
  auto plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE(plan);
  CHECK(plan->blocks == 64);
  config.model.max_num_seqs = 4096;
  plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE(plan);
  CHECK(plan->blocks > 2000);
  CHECK(plan->blocks * block < roomy_machine.at(root_machine).memory_available_bytes / 2);
  plan = make_plan(config, small_model(), alone({{0, 1}, 280u << 20}));
  REQUIRE_FALSE(plan);
  CHECK(plan.error().param == "model.kv_cache_bytes");
  CHECK(plan.error().message.find("(\"auto\")") != std::string::npos);
}

// Three layers of four have a state of 1 MiB.
model::description recurrent_model() {
  auto d = small_model();
  d.recurrence = {.channels = 32, .convolution_rows = 2, .key_head_count = 1};
  d.recurrence->value_head_count = 1;
  d.recurrence->key_size = 512;
  d.recurrence->value_size = 512;
  d.layers.assign(d.layer_count, {});
  for (std::uint32_t i = 0; i < d.layer_count; ++i)
    if (i % 4 != 3)
      d.layers[i].mixer = model::mixer_kind::delta_net;
  return d;
}

TEST_CASE("recurrent states get at most half of the KV cache, and leave room for a context") {
  auto config = two_stages();
  const auto model = recurrent_model();
  const auto per_slot = model.state_bytes(0, model.layer_count);
  config.model.kv_cache_bytes = 512u << 20;
  config.model.max_num_seqs = 2;
  const auto few = make_plan(config, model, roomy_machine);
  REQUIRE_MESSAGE(few, few.error().message);
  CHECK(few->state_slots == 6); // three for each sequence
  const auto bytes_of = [](const cluster_plan& plan) {
    return plan.shards[0].kv_bytes + plan.shards[1].kv_bytes;
  };
  CHECK(bytes_of(*few) <= 512u << 20);
  CHECK(bytes_of(*few) > 500u << 20);
  config.model.max_num_seqs = 64;
  const auto many = make_plan(config, model, roomy_machine);
  REQUIRE_MESSAGE(many, many.error().message);
  CHECK(many->state_slots == (256u << 20) / per_slot);
  CHECK(bytes_of(*many) <= 512u << 20);
  CHECK(plan_table(config, model, *many, {}, roomy_machine).find("recurrent states: ") !=
        std::string::npos);
  // The longest sequence goes before more states, a sequence's own two states before that.
  const auto context =
      few->max_model_len / few->block_positions * (bytes_of(*few) - 6 * per_slot) / few->blocks;
  config.model.kv_cache_bytes = context + 3 * per_slot;
  const auto tight = make_plan(config, model, roomy_machine);
  REQUIRE_MESSAGE(tight, tight.error().message);
  CHECK(tight->state_slots == 2); // not more than half
  config.model.kv_cache_bytes = context;
  const auto none = make_plan(config, model, roomy_machine);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::does_not_fit);
  config.model.kv_cache_bytes = std::nullopt;
  const auto automatic = make_plan(config, model, roomy_machine);
  REQUIRE_MESSAGE(automatic, automatic.error().message);
  CHECK(automatic->state_slots > 6);
  CHECK(automatic->state_slots * per_slot <= 2ull << 30); // half of the half that KV gets
}

TEST_CASE("cores are those that the process may use, named or divided") {
  using cores = std::vector<std::uint32_t>;
  auto place = [](std::vector<std::string> devices, cores allowed) {
    auto config = two_stages();
    config.nodes[0].devices = std::move(devices);
    auto plan = make_plan(config, small_model(), alone({std::move(allowed), 8ull << 30}));
    REQUIRE(plan);
    CHECK(plan->shards[0].threads == plan->shards[0].cores.size());
    return std::pair(plan->shards[0].cores, plan->shards[1].cores);
  };
  CHECK(place({"cpu:0", "cpu:1"}, {4, 6}) == std::pair(cores{4}, cores{6}));
  CHECK(place({"cpu", "cpu"}, {4, 6}) == std::pair(cores{4}, cores{6}));
  CHECK(place({"cpu", "cpu"}, {0, 1, 2, 3, 4}) == std::pair(cores{0, 1}, cores{2, 3, 4}));
  CHECK(place({"cpu:1-2", "cpu"}, {0, 1, 2, 3}) == std::pair(cores{1, 2}, cores{0, 3}));
  CHECK(place({"cpu", "cpu"}, {7}) == std::pair(cores{7}, cores{7})); // few: shared
  CHECK(place({"cpu:0", "cpu"}, {7}) == std::pair(cores{7}, cores{7}));
}

TEST_CASE("a second hardware thread of a core computes only if named") {
  auto config = two_stages();
  config.model.pipeline_parallel_size = 1;
  const machines smt = alone({{0, 1, 2, 3}, 8ull << 30, {2, 3}});
  auto cores_of = [&](const char* device) {
    config.nodes[0].devices = {device};
    auto plan = make_plan(config, small_model(), smt);
    REQUIRE(plan);
    return plan->shards[0].cores;
  };
  CHECK(cores_of("cpu") == std::vector<std::uint32_t>{0, 1});
  CHECK(cores_of("cpu:0-3") == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(cores_of("cpu:2") == std::vector<std::uint32_t>{2});
}

TEST_CASE("threads are pinned one to a core, or left to the system if there are more of them") {
  auto config = two_stages();
  config.model.threads_per_shard = 1;
  config.nodes[0].devices = {"cpu:0-1", "cpu:1"};
  auto plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE(plan);
  CHECK(plan->shards[0].cores == std::vector<std::uint32_t>{4});
  CHECK(plan->shards[1].cores == std::vector<std::uint32_t>{6});
  config.model.threads_per_shard = 3;
  plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE(plan);
  CHECK(plan->shards[0].threads == 3);
  CHECK(plan->shards[0].cores.empty());
}

TEST_CASE("without nodes, every physical core works on one stage, and the plan says so") {
  auto config = parse_config("[model]\nname = \"m\"\npath = \"a.gguf\"\n", "x.toml");
  REQUIRE(config);
  auto plan = make_plan(*config, small_model(), roomy_machine);
  REQUIRE(plan);
  REQUIRE(plan->shards.size() == 1);
  CHECK(plan->shards[0].cores == roomy_machine.at(root_machine).cores);
  CHECK(plan_table(*config, small_model(), *plan).find("one stage of every physical core") !=
        std::string::npos);
}

TEST_CASE("a stage of two ranks is two shards on the devices of one node, each with its slice") {
  auto config = two_stages();
  config.model.pipeline_parallel_size = 1;
  config.model.tensor_parallel_size = 2;
  const auto plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE_MESSAGE(plan, plan.error().message);
  REQUIRE(plan->shards.size() == 2);
  CHECK(plan->stages == 1);
  CHECK(plan->width == 2);
  const auto &first = plan->shards[0], &second = plan->shards[1];
  CHECK(first.cores == std::vector<std::uint32_t>{4});
  CHECK(second.cores == std::vector<std::uint32_t>{6});
  CHECK(second.stage == 0);
  CHECK(second.rank == 1);
  CHECK(first.slice().heads == model::index_range{0, 5}); // nine over two
  CHECK(second.slice().kv_heads == model::index_range{1, 2});
  CHECK(second.slice().ffn.count == 768);
  CHECK(first.layers == second.layers);
  CHECK(first.weight_bytes > second.weight_bytes);
  CHECK(first.kv_bytes == second.kv_bytes);
  CHECK(plan->blocks ==
        (512ull << 20) / (30ull * 2 * 4 * 64 * 2 * 64)); // one KV head is held twice
  const auto table = plan_table(config, small_model(), *plan);
  CHECK(table.find("rank 1 of 2: KV heads 1-2, heads 5-8, ffn 768") != std::string::npos);
  CHECK(table.find("]  shard-0 + shard-1 on a\n") != std::string::npos);
  const auto json = plan_json(config, small_model(), *plan);
  CHECK(json["tensor_parallel_size"] == 2);
  CHECK(json["shards"][1]["heads"] == 4);
  CHECK(json["shards"][1]["kv_heads"] == 2);
}

TEST_CASE("two stages of two ranks are four shards; a rank with more cores gets more") {
  auto config = two_stages();
  config.model.tensor_parallel_size = 2;
  config.nodes = {{"a", "127.0.0.1", {"cpu:0-1", "cpu:2"}, "", "", false},
                  {"b", "10.0.0.2", {"cpu:0", "cpu:1"}, "", "", true}};
  const machines known{{root_machine, {{0, 1, 2}, 8ull << 30}}, {"b", {{4, 5}, 8ull << 30}}};
  const auto plan = make_plan(config, small_model(), known);
  REQUIRE_MESSAGE(plan, plan.error().message);
  REQUIRE(plan->shards.size() == 4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    CHECK(plan->shards[i].stage == i / 2);
    CHECK(plan->shards[i].rank == i % 2);
    CHECK(plan->shards[i].on == (i < 2 ? "a" : "b"));
  }
  CHECK(plan->shards[0].slice().ffn.count == 1024); // of 1536, for two cores of three
  CHECK(plan->shards[2].slice().ffn.count == 768);
  CHECK(plan->shards[3].layers.has_head);
  const auto table = plan_table(config, small_model(), *plan);
  CHECK(table.find("]  shard-2 + shard-3 on b\n") != std::string::npos);
}

TEST_CASE("impossible divisions into ranks are refused by name and number") {
  auto config = two_stages();
  auto model = small_model();
  config.model.pipeline_parallel_size = 1;
  const auto refusal = [&] {
    const auto plan = make_plan(config, model, alone({{0, 1, 2, 3}, 8ull << 30}));
    REQUIRE_FALSE(plan);
    CHECK(plan.error().param == "model.tensor_parallel_size");
    return plan.error().message;
  };
  const auto check_refusal = [&](const char* words) {
    const auto message = refusal();
    CAPTURE(message);
    CHECK(message.find(words) != std::string::npos);
  };
  SUBCASE("more ranks than heads") {
    config.model.tensor_parallel_size = 4;
    config.nodes[0].devices = {"cpu:0", "cpu:1", "cpu:2", "cpu:3"};
    model.head_count = model.kv_head_count;
    check_refusal("3 heads cannot be cut for 4 ranks");
  }
  SUBCASE("more ranks than KV heads, on GPUs") {
    config.model.tensor_parallel_size = 4;
    config.nodes[0].devices = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    check_refusal("3 KV heads cannot be cut for 4 ranks");
  }
  SUBCASE("heads that share a block of their type") {
    config.model.tensor_parallel_size = 4;
    config.nodes[0].devices = {"cpu:0", "cpu:1", "cpu:2", "cpu:3"};
    model.cuts.attention = 256; // a K type: four heads of 64 are a block
    check_refusal("9 heads (4 stay together) cannot be cut for 4 ranks");
  }
  SUBCASE("too few devices") {
    config.model.pipeline_parallel_size = 2;
    config.model.tensor_parallel_size = 2;
    check_refusal("are 4 shards, but the nodes have 2 devices");
  }
}

TEST_CASE("ranks of one stage on two nodes meet over the bus, those of one node do not") {
  auto config = two_stages();
  config.model.tensor_parallel_size = 2;
  config.nodes = {{"a", "127.0.0.1", {"cpu:0", "cpu:1", "cpu:2"}, "", "", false},
                  {"b", "10.0.0.2", {"cpu:0"}, "", "", true}};
  const machines known{{root_machine, {{0, 1, 2}, 8ull << 30}}, {"b", {{4, 5}, 8ull << 30}}};
  const auto plan = make_plan(config, small_model(), known);
  REQUIRE_MESSAGE(plan, plan.error().message);
  REQUIRE(plan->shards.size() == 4);
  CHECK_FALSE(meets_over_bus(*plan, plan->shards[1]));
  CHECK(meets_over_bus(*plan, plan->shards[2]));
  CHECK(meets_over_bus(*plan, plan->shards[3]));
  CHECK(stage_of(*plan, plan->shards[3]).front().name == "shard-2");
  CHECK(plan_table(config, small_model(), *plan)
            .find("shard-2 and shard-3 of stage 1 meet over the bus") != std::string::npos);
}

TEST_CASE("a token budget has room for one sequence at least") {
  auto config = two_stages();
  config.model.max_model_len = 512;
  config.model.max_batch_total_tokens = 511;
  const auto plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == errc::bad_config);
  CHECK(plan.error().param == "model.max_batch_total_tokens");
  config.model.max_batch_total_tokens = 512;
  CHECK(make_plan(config, small_model(), roomy_machine));
}

TEST_CASE("sizes are printed in binary units") {
  CHECK(human_bytes(512) == "512 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(3ull << 30) == "3.0 GiB");
}

TEST_CASE("over several machines every shard uses cores and memory of its own machine") {
  auto config = two_stages();
  config.nodes = {{"a", "127.0.0.1", {"cpu"}, "", "", false},
                  {"b", "10.0.0.2", {"cpu"}, "", "", true}};
  machines known{{root_machine, {{0, 1}, 8ull << 30}}, {"b", {{4, 5, 6}, 8ull << 30}}};
  auto plan = make_plan(config, small_model(), known);
  REQUIRE(plan);
  CHECK(plan->shards[0].cores == std::vector<std::uint32_t>{0, 1});
  CHECK(plan->shards[1].cores == std::vector<std::uint32_t>{4, 5, 6});
  CHECK(plan->shards[1].machine == "b");
  CHECK(agents_of(config)[1].machine == "b");
  SUBCASE("the smallest machine determines the number of KV blocks") {
    config.model.kv_cache_bytes.reset();
    config.model.max_num_seqs = 4096;
    const auto even = make_plan(config, small_model(), known);
    known["b"].memory_available_bytes = 1ull << 30;
    const auto small = make_plan(config, small_model(), known);
    REQUIRE(even);
    REQUIRE(small);
    CHECK(small->blocks < even->blocks / 2);
  }
  SUBCASE("a plan that does not fit is refused with the node's name") {
    known["b"].memory_available_bytes = 100u << 20;
    plan = make_plan(config, small_model(), known);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::does_not_fit);
    CHECK(plan.error().message.find("of node b need") != std::string::npos);
  }
  SUBCASE("an unknown machine is requested by name") {
    known.erase("b");
    plan = make_plan(config, small_model(), known);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().code == errc::bad_config);
    CHECK(plan.error().message.find("node b is on another machine (10.0.0.2)") !=
          std::string::npos);
  }
}

TEST_CASE("more nodes than process ids are refused") {
  auto config = two_stages();
  config.nodes.resize(1969, config.nodes[0]);
  const auto plan = make_plan(config, small_model(), roomy_machine);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == errc::bad_config);
  CHECK(plan.error().message == "there are 1969 nodes, at most 1968 are possible");
}

// -- Generations --

namespace {

// Two nodes with a device each, and one that waits.
cluster_config three_planned_nodes() {
  auto config = two_stages();
  config.nodes = {{"a", "127.0.0.1", {"cpu:0"}, "", "", false},
                  {"b", "127.0.0.1", {"cpu:1"}, "", "", false},
                  {"c", "127.0.0.1", {"cpu"}, "", "", false, true}};
  return config;
}

} // namespace

TEST_CASE("shards of different generations share neither process id nor name") {
  const auto config = three_planned_nodes();
  const auto first = make_plan(config, small_model(), roomy_machine);
  const auto second = make_plan(config, small_model(), roomy_machine, {7, 3, {}});
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->shards.size() == 2);
  REQUIRE(second->shards.size() == 3);
  CHECK(second->generation == 7);
  CHECK(first->shards[0].name == "shard-0");
  CHECK(second->shards[2].name == "shard-2-g7");
  CHECK(second->shards[2].on == "c");
  CHECK(second->shards[2].layers.end() == 30);
  CHECK(process_ids::generation_of(second->shards[2].process) == 7);
  CHECK(process_ids::index_of(second->shards[2].process) == 2);
  CHECK(first->blocks == second->blocks);
}

TEST_CASE("two generations fit beside one another, or the error gives the numbers") {
  const auto config = three_planned_nodes();
  auto tight = roomy_machine;
  tight.at(root_machine).memory_available_bytes = 1000ull << 20; // one needs about 800 MiB
  const auto serving = make_plan(config, small_model(), tight);
  const auto coming = make_plan(config, small_model(), tight, {1, 1, {"c", "b"}});
  REQUIRE(serving);
  REQUIRE(coming);
  CHECK(check_fits_beside({&*serving}, *coming, roomy_machine));
  const auto refused = check_fits_beside({&*serving}, *coming, tight);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::does_not_fit);
  CHECK(refused.error().message.find("1000.0 MiB") != std::string::npos);
}
