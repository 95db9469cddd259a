// The next generation of shards: nodes that are added and drained, replicas that are switched on
// and off, stages that become wider.
#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/plan/plan.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

const machines roomy_machines{{root_machine, {{0, 1, 2, 3}, 8ull << 30}}};

cluster_config parsed(const std::string& text) {
  auto config = parse_config("[model]\nname = \"m\"\npath = \"m.gguf\"\n" + text, "x.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  return *config;
}

// Two nodes with a device each, and one that waits.
cluster_config three_nodes_of_pipeline() {
  return parsed("pipeline_parallel_size = 2\n"
                "[[nodes]]\nname = \"a\"\ndevices = [\"cpu:0\"]\n"
                "[[nodes]]\nname = \"b\"\ndevices = [\"cpu:1\"]\n"
                "[[nodes]]\nname = \"c\"\ndevices = [\"cpu\"]\nwaits = true\n");
}

// Four stages on two nodes.
cluster_config four_devices() {
  return parsed("pipeline_parallel_size = 4\n"
                "[[nodes]]\nname = \"a\"\ndevices = [\"cpu:0\", \"cpu:1\", \"cpu:2\"]\n"
                "[[nodes]]\nname = \"b\"\ndevices = [\"cpu:3\"]\n");
}

} // namespace

TEST_CASE("a waiting node has no layers until it is added, a drained one none any more") {
  const auto config = three_nodes_of_pipeline();
  const auto first = first_generation(config);
  CHECK(first == generation{0, 2, {"c"}});
  const auto drained = next_generation(config, first, "b", true);
  REQUIRE(drained);
  CHECK(*drained == generation{0, 1, {"c", "b"}});
  const auto added = next_generation(config, first, "c", false);
  REQUIRE(added);
  CHECK(*added == generation{0, 3, {}});
}

TEST_CASE("of lost nodes only those with layers count") {
  const auto config = three_nodes_of_pipeline();
  const auto first = first_generation(config);
  const auto left = next_generation_without(config, first, {"b", "c", "x"});
  REQUIRE(left);
  CHECK(left->stages == 1);
  CHECK(is_without(*left, "b"));
  CHECK(is_without(*left, "c"));
  CHECK_FALSE(is_without(*left, "a"));
  const auto none = next_generation_without(config, first, {"a", "b"});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::does_not_fit);
}

TEST_CASE("impossible changes are refused by name") {
  const auto config = three_nodes_of_pipeline();
  const auto first = first_generation(config);
  CHECK(next_generation(config, first, "x", true).error().code == errc::not_found);
  CHECK(next_generation(config, first, "c", true).error().code == errc::conflict);
  CHECK(next_generation(config, first, "a", false).error().code == errc::conflict);
  const auto alone = next_generation(config, first, "b", true);
  REQUIRE(alone);
  const auto none = next_generation(config, *alone, "a", true);
  REQUIRE(none); // for a replica among several
  CHECK(none->stages == 0);
  const auto plan = make_plan(config, small_model(), roomy_machines, *none);
  REQUIRE(plan);
  CHECK(plan->shards.empty());
  CHECK(agents_of(config).size() == 3);
}

TEST_CASE("a pipeline that is switched off keeps its devices, and returns with them") {
  const auto config = three_nodes_of_pipeline();
  const auto first = first_generation(config);
  const auto off = next_generation_scaled(config, first, false, 1);
  REQUIRE(off);
  CHECK(*off == generation{0, 0, {"c"}});
  const auto plan =
      make_plan(config, small_model(), {}, *off); // no machine has to be present for it
  REQUIRE(plan);
  CHECK(plan->shards.empty());
  CHECK(*next_generation_scaled(config, *off, true, 1) == first);
  CHECK(*next_generation_scaled(config, first, true, 1) == first);
}

TEST_CASE("a node of a pipeline that is switched off may be drained; adding one switches it on") {
  const auto config = three_nodes_of_pipeline();
  const auto off = next_generation_scaled(config, first_generation(config), false, 1);
  REQUIRE(off);
  const auto drained = next_generation(config, *off, "b", true);
  REQUIRE(drained);
  CHECK(*drained == generation{0, 0, {"c", "b"}});
  CHECK(next_generation_scaled(config, *drained, true, 1)->stages == 1);
  const auto added = next_generation(config, *drained, "b", false);
  REQUIRE(added);
  CHECK(added->stages == 2);
  const auto refused = next_generation(config, *off, "a", false);
  CHECK(refused.error().code == errc::conflict);
  CHECK(refused.error().message.find("cluster scale") != std::string::npos);
}

TEST_CASE("a pipeline without a node cannot be switched on") {
  const auto config = three_nodes_of_pipeline();
  const auto refused = next_generation_scaled(config, {0, 0, {"a", "b", "c"}}, true, 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::does_not_fit);
  CHECK(refused.error().message.find("add-node") != std::string::npos);
}

TEST_CASE("wider stages are fewer, and their ranks share the layers") {
  auto config = four_devices();
  config.nodes[0].devices.push_back("cpu:4");
  config.nodes[0].owners.push_back(0);
  config.nodes.pop_back();
  const machines known{{root_machine, {{0, 1, 2, 3, 4}, 8ull << 30}}};
  const auto wide = next_generation_scaled(config, first_generation(config), true, 2);
  REQUIRE(wide);
  CHECK(*wide == generation{0, 2, {}, 2});
  const auto plan = make_plan(config, small_model(), known, *wide);
  REQUIRE(plan);
  REQUIRE(plan->shards.size() == 4);
  CHECK(plan->width == 2);
  CHECK(plan->shards[1].stage == 0);
  CHECK(plan->shards[1].rank == 1);
  CHECK(plan->shards[2].stage == 1);
  CHECK(plan->shards[0].slice().heads.count + plan->shards[1].slice().heads.count == 9);
  CHECK(*next_generation_scaled(config, *wide, true, 1) == first_generation(config));
  const auto wider = next_generation_scaled(config, *wide, true, 4);
  REQUIRE(wider);
  auto few_heads = small_model();
  few_heads.head_count = few_heads.kv_head_count = 3;
  const auto refused = make_plan(config, few_heads, known, *wider);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().param == "model.tensor_parallel_size");
}

TEST_CASE("stages become wider over two nodes, but not beyond their devices") {
  const auto config = four_devices();
  const auto next = next_generation_scaled(config, first_generation(config), true, 2);
  REQUIRE(next);
  const auto plan = make_plan(config, small_model(), roomy_machines, *next);
  REQUIRE_MESSAGE(plan, plan.error().message);
  CHECK_FALSE(meets_over_bus(*plan, plan->shards.at(0)));
  CHECK(meets_over_bus(*plan, plan->shards.at(2))); // a has three devices, b one
  const auto wider = next_generation_scaled(config, first_generation(config), true, 8);
  REQUIRE(wider);
  const auto refused = make_plan(config, small_model(), roomy_machines, *wider);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("are 8 shards, but the nodes have 4 devices") !=
        std::string::npos);
}

TEST_CASE("nodes come and go without loading a model on demand") {
  const auto config = parsed("load = \"on-demand\"\n"
                             "[[nodes]]\nname = \"a\"\ndevices = [\"cpu:0\"]\n");
  const auto unloaded = first_generation(config);
  CHECK(unloaded.stages == 0);
  const auto drained = next_generation(config, unloaded, "a", true);
  REQUIRE(drained);
  CHECK(drained->stages == 0);
  const auto added = next_generation(config, *drained, "a", false);
  REQUIRE(added);
  CHECK(added->stages == 0);
  const auto loaded = next_generation_scaled(config, *added, true, 1);
  REQUIRE(loaded);
  CHECK(loaded->stages == 1);
  CHECK_FALSE(next_generation_scaled(config, *drained, true, 1)); // there is no device
}
