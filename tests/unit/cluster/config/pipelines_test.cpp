// Several pipelines in one cluster: the devices of each, all distinct.
#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/plan/next_generation.hpp"
#include "cluster/plan/plan.hpp"
#include "tests/unit/cluster/replaced.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace baton;
using namespace baton::cluster;
using baton::testing::replaced;

namespace {

constexpr std::string_view two_models = R"(
[[models]]
name = "one"
path = "one.gguf"
replicas = 2
[[models]]
name = "two"
path = "two.gguf"
pipeline_parallel_size = 2
nodes = ["b", "c"]
[[nodes]]
name = "a"
devices = ["cpu:0", "cpu:1"]
[[nodes]]
name = "b"
devices = ["cpu:2"]
[[nodes]]
name = "c"
devices = ["cpu:3"]
)";

std::string pipelines_refusal(const std::string& text) {
  const auto config = parse_config(text, "x.toml");
  REQUIRE_FALSE(config);
  CHECK(config.error().code == errc::bad_config);
  return config.error().message;
}

} // namespace

TEST_CASE("every replica of every model has its own devices, where the model may be") {
  const auto config = parse_config(two_models, "x.toml");
  REQUIRE(config);
  CHECK(models_of_pipelines(*config) == std::vector<std::uint32_t>{0, 0, 1});
  CHECK(config->nodes[0].owners == std::vector<std::uint32_t>{0, 1});
  CHECK(config->nodes[1].owners == std::vector<std::uint32_t>{2});
  CHECK(config->nodes[2].owners == std::vector<std::uint32_t>{2});
  CHECK(config_for(*config, 1).model.name == "one");
  CHECK(config_for(*config, 2).model.name == "two");
  CHECK(has_devices_on(*config, 2, "b"));
  CHECK_FALSE(has_devices_on(*config, 2, "a"));
  CHECK_FALSE(has_devices_on(*config, 2, "x"));
}

TEST_CASE("the plans of pipelines share no core, process or name") {
  const auto config = parse_config(two_models, "x.toml");
  REQUIRE(config);
  const machines roomy{{root_machine, {{0, 1, 2, 3}, 8ull << 30}}};
  std::set<std::uint32_t> cores;
  std::set<process_id> nodes;
  std::set<std::string> names;
  for (std::uint32_t p = 0; p < 3; ++p) {
    const auto plan = make_plan(config_for(*config, p), small_model(), roomy);
    REQUIRE(plan);
    CHECK(plan->pipeline == p);
    CHECK(plan->generation == p);
    for (const auto& s : plan->shards) {
      CHECK(s.cores.size() == 1);
      cores.insert(s.cores.begin(), s.cores.end());
      nodes.insert(s.process);
      names.insert(s.name);
    }
    nodes.insert(process_ids::head(p));
    CHECK(process_ids::pipeline_of_head(process_ids::head(p)) == p);
  }
  CHECK(cores == std::set<std::uint32_t>{0, 1, 2, 3});
  CHECK(names == std::set<std::string>{"shard-0", "shard-1.0", "shard-2.0", "shard-2.1"});
  CHECK(nodes.size() == 7);
}

TEST_CASE("cores without a named device are shared by the devices of all pipelines") {
  const auto config = parse_config("[model]\nname = \"m\"\npath = \"m.gguf\"\nreplicas = 2\n"
                                   "kv_cache_bytes = \"auto\"\n",
                                   "x.toml");
  REQUIRE(config);
  REQUIRE(config->nodes.size() == 1);
  const machines roomy{{root_machine, {{0, 1, 2, 3}, 8ull << 30}}};
  const auto first = make_plan(config_for(*config, 0), small_model(), roomy);
  const auto second = make_plan(config_for(*config, 1), small_model(), roomy);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->shards[0].cores == std::vector<std::uint32_t>{0, 1});
  CHECK(second->shards[0].cores == std::vector<std::uint32_t>{2, 3});
  CHECK(check_fits_beside({&*first}, *second, roomy)); // "auto" is a share of the memory
}

TEST_CASE("a waiting node belongs to the pipeline with the fewest of them") {
  const auto text =
      replaced(two_models, "devices = [\"cpu:2\"]", "devices = [\"cpu:2\", \"cpu:3\"]");
  auto waiting =
      replaced(text, "name = \"c\"\ndevices = [\"cpu:3\"]",
               "name = \"c\"\ndevices = [\"cpu:4\"]\nwaits = true\n[[nodes]]\nname = "
               "\"d\"\ndevices = [\"cpu:5\", \"cpu:6\"]\nwaits = true\n[[nodes]]\nname = "
               "\"e\"\ndevices = [\"cpu:7\"]\nwaits = true");
  waiting = replaced(waiting, "\nnodes = [\"b\", \"c\"]", "\nnodes = [\"b\"]");
  const auto config = parse_config(waiting, "x.toml");
  REQUIRE(config);
  CHECK(config->nodes[1].owners == std::vector<std::uint32_t>{2, 2});
  CHECK(config->nodes[2].owners == std::vector<std::uint32_t>{0});
  CHECK(config->nodes[3].owners == std::vector<std::uint32_t>{1, 1});
  CHECK(config->nodes[4].owners == std::vector<std::uint32_t>{0});
}

TEST_CASE("a replica without enough devices waits, as do the nodes that have them") {
  const auto text = replaced(two_models, "replicas = 2", "replicas = 3") +
                    "[[nodes]]\nname = \"d\"\ndevices = [\"cpu:4\", \"cpu:5\"]\nwaits = true\n";
  const auto config = parse_config(text, "x.toml");
  REQUIRE(config);
  CHECK(models_of_pipelines(*config) == std::vector<std::uint32_t>{0, 0, 0, 1});
  CHECK(config->nodes[0].owners == std::vector<std::uint32_t>{0, 1});
  CHECK(config->nodes[1].owners == std::vector<std::uint32_t>{3});
  CHECK(config->nodes[3].owners == std::vector<std::uint32_t>{2, 0});
  const auto view = config_for(*config, 2);
  const auto first = first_generation(view);
  CHECK(first.stages == 0);
  const machines roomy{{root_machine, {{0, 1, 2, 3, 4, 5}, 8ull << 30}}};
  const auto off = make_plan(view, small_model(), roomy, first);
  REQUIRE(off);
  CHECK(off->shards.empty());
  const auto on = next_generation(view, first, "d", false);
  REQUIRE(on);
  CHECK(on->stages == 1);
  const auto plan = make_plan(view, small_model(), roomy, *on);
  REQUIRE(plan);
  CHECK(plan->shards.at(0).cores == std::vector<std::uint32_t>{4});
}

TEST_CASE("the ranks of a stage get devices of one node, if one has enough") {
  const std::string_view two_nodes = R"(
[[nodes]]
name = "x"
devices = ["cpu:0"]
[[nodes]]
name = "y"
devices = ["cpu:1", "cpu:2"]
[[nodes]]
name = "z"
devices = ["cpu:3"]
[[models]]
name = "one"
path = "one.gguf"
tensor_parallel_size = 2
replicas = 2
)";
  auto config = parse_config(two_nodes, "x.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  using owners = std::vector<std::uint32_t>;
  CHECK(config->nodes[1].owners == owners{0, 0});
  CHECK(config->nodes[0].owners == owners{1}); // over the bus
  CHECK(config->nodes[2].owners == owners{1});
}

TEST_CASE("an uneven division is refused by name") {
  CHECK(pipelines_refusal(replaced(two_models, "replicas = 2", "replicas = 3"))
            .find("model one takes 1 devices") != std::string::npos);
  CHECK(pipelines_refusal(replaced(two_models, "replicas = 2", "replicas = 1"))
            .find("node a has 1 devices that no replica takes") != std::string::npos);
  CHECK(
      pipelines_refusal(replaced(two_models, "[\"b\", \"c\"]", "[\"b\", \"x\"]")).find("node x") !=
      std::string::npos);
  CHECK(pipelines_refusal(replaced(two_models, "name = \"two\"", "name = \"one\""))
            .find("two models") != std::string::npos);
  CHECK(pipelines_refusal(replaced(two_models, "replicas = 2", "replicas = 65")).find("replicas") !=
        std::string::npos);
  CHECK(pipelines_refusal("[model]\nname = \"m\"\npath = \"m\"\n" + std::string(two_models))
            .find("[[models]]") != std::string::npos);
  const auto misspelt = parse_config(
      replaced(two_models, "pipeline_parallel_size", "pipeline_parallel_sise"), "x.toml");
  REQUIRE_FALSE(misspelt);
  CHECK(misspelt.error().code == errc::unknown_key);
  CHECK(misspelt.error().message.find("pipeline_parallel_size") != std::string::npos);
}

TEST_CASE("models that are loaded on demand share the devices that the others leave") {
  const auto config = parse_config(R"(
[cluster]
max_loaded_models = 2
[[models]]
name = "always"
path = "one.gguf"
[[models]]
name = "x"
path = "x.gguf"
load = "on-demand"
[[models]]
name = "y"
path = "y.gguf"
load = "on-demand"
pin = true
pipeline_parallel_size = 2
[[models]]
name = "z"
path = "z.gguf"
load = "on-demand"
idle_timeout = 7
load_timeout = 8
[[nodes]]
name = "a"
devices = ["cpu:0", "cpu:1"]
[[nodes]]
name = "b"
devices = ["cpu:2"]
)",
                                   "x.toml");
  REQUIRE(config);
  CHECK(config->nodes[0].owners == std::vector<std::uint32_t>{0, shared_device});
  CHECK(config->nodes[1].owners == std::vector<std::uint32_t>{shared_device});
  CHECK(config_for(*config, 1).nodes[0].owners == std::vector<std::uint32_t>{0, 1});
  CHECK(config_for(*config, 1).nodes[1].owners == std::vector<std::uint32_t>{shared_device});
  CHECK(config_for(*config, 2).nodes[1].owners == std::vector<std::uint32_t>{2});
  CHECK(has_devices_on(*config, 2, "b"));
  CHECK_FALSE(has_devices_on(*config, 1, "b")); // it has its device on a
  CHECK_FALSE(has_devices_on(config_for(*config, 1), 1, "b"));
  CHECK(on_demand_pipelines(*config) == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(loaded_at_once(*config) == 2);
  CHECK(config->models[3].idle_timeout == std::chrono::seconds(7));
  CHECK(config->models[3].load_timeout == std::chrono::seconds(8));
  CHECK(first_generation(config_for(*config, 0)).stages == 1);
  CHECK(first_generation(config_for(*config, 1)).stages == 0);
  CHECK(first_generation(config_for(*config, 2)).stages == 2); // pinned
}

TEST_CASE("one device is enough for many models that are loaded on demand") {
  std::string text;
  for (const auto* name : {"x", "y", "z"})
    text += fmt::format("[[models]]\nname = \"{0}\"\npath = \"{0}.gguf\"\nload = \"on-demand\"\n",
                        name);
  const auto config = parse_config(text, "x.toml");
  REQUIRE(config);
  REQUIRE(config->nodes.size() == 1);
  CHECK(config->nodes[0].devices.size() == 1);
  CHECK(config_for(*config, 2).nodes[0].owners == std::vector<std::uint32_t>{2});
}

TEST_CASE("settings of loading are refused where they mean nothing") {
  const std::string model = "[model]\nname = \"x\"\npath = \"x.gguf\"\n";
  for (const auto* key : {"pin = true", "idle_timeout = 3", "load_timeout = 3"})
    CHECK(pipelines_refusal(model + key).find("needs model.load = \"on-demand\"") !=
          std::string::npos);
  CHECK(pipelines_refusal(model + "load = \"lazy\"").find("use \"always\" or \"on-demand\"") !=
        std::string::npos);
  CHECK(
      pipelines_refusal(model + "load = \"on-demand\"\nreplicas = 2").find("replicas must be 1") !=
      std::string::npos);
  const auto no_room = pipelines_refusal(R"(
[[models]]
name = "x"
path = "x.gguf"
[[models]]
name = "y"
path = "y.gguf"
load = "on-demand"
[[nodes]]
name = "a"
devices = ["cpu:0"]
)");
  CHECK(no_room.find("model y is loaded on demand to 1 devices") != std::string::npos);
  CHECK(no_room.find("the other models leave 0 for it") != std::string::npos);
}
