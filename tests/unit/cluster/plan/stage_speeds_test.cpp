// Layers go where they are read fastest.
#include "cluster/plan/stage_speeds.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::cluster;

namespace {

using speeds = std::vector<double>;

machine_facts of_four_cores(read_speed reads) {
  return {{0, 1, 2, 3}, 16ull << 30, {}, reads};
}

machines two_machines(read_speed here, read_speed there) {
  return {{root_machine, of_four_cores(here)}, {"b", of_four_cores(there)}};
}

cluster_config of_stages(std::vector<std::string> here, std::vector<std::string> there) {
  cluster_config c;
  c.model.pipeline_parallel_size = static_cast<std::uint32_t>(here.size() + there.size());
  c.nodes = {{"a", "127.0.0.1", std::move(here), "", "", false}};
  if (!there.empty())
    c.nodes.push_back({"b", "10.0.0.2", std::move(there), "", "", true});
  return c;
}

cluster_plan plan_of(const cluster_config& config, const machines& known) {
  auto plan = make_plan(config, small_model(), known);
  REQUIRE_MESSAGE(plan, plan.error().message);
  return *std::move(plan);
}

speeds of(const cluster_config& config, const machines& known) {
  return stage_speeds(plan_of(config, known), known);
}

} // namespace

TEST_CASE("a machine that reads half as fast has about half as many layers") {
  const auto config = of_stages({"cpu:0-3"}, {"cpu:0-3"});
  const auto known = two_machines({10, 40}, {5, 20});
  CHECK(of(config, known) == speeds{40, 20});
  const auto plan = plan_of(config, known);
  CHECK(plan.shards[0].layers.count > 18);
  CHECK(plan.shards[0].layers.count + plan.shards[1].layers.count == 30);
  const auto alike = plan_of(config, two_machines({10, 40}, {10, 40}));
  CHECK(plan.shards[0].layers.count > alike.shards[0].layers.count);
}

TEST_CASE("threads count as far as their machine's memory feeds them") {
  CHECK(of(of_stages({"cpu:0-3"}, {"cpu:0"}), two_machines({10, 20}, {10, 20})) ==
        speeds{20, 10}); // four threads get what two would take
  CHECK(of(of_stages({"cpu:0", "cpu:1"}, {"cpu:0"}), two_machines({10, 12}, {10, 12})) ==
        speeds{6, 6, 10}); // two stages of a machine share it
}

TEST_CASE("differences within noise do not change the split") {
  const auto config = of_stages({"cpu:0-3"}, {"cpu:0-3"});
  CHECK(of(config, two_machines({10, 40}, {8.1, 33})) == speeds{40, 40});
  CHECK(of(config, two_machines({8.1, 33}, {10, 40})) == speeds{40, 40});
  CHECK(of(config, two_machines({10, 40}, {7, 28})) == speeds{40, 28});
}

TEST_CASE("if a machine has not reported its speed, only threads count") {
  const auto config = of_stages({"cpu:0-3"}, {"cpu:0"});
  CHECK(of(config, two_machines({10, 40}, {})) == speeds{4, 1});
  CHECK(of(config, two_machines({10, 40}, {10, 0})) == speeds{4, 1});
  CHECK(of(of_stages({"cpu:0", "cpu:1-3"}, {}), two_machines({}, {})) == speeds{1, 3});
}

TEST_CASE("a machine's read speed is transmitted as measured") {
  const auto sent = json_of(of_four_cores({11.75, 0.1 + 0.2}));
  const auto received = machine_from(nlohmann::json::parse(sent.dump()));
  REQUIRE(received);
  CHECK(received->reads.one_thread == 11.75);
  CHECK(received->reads.all_cores == 0.1 + 0.2);
  for (const auto* wrong : {"[1]", "[1, \"2\"]", "[-1, 2]", "[1, 1e300]", "3"}) {
    auto other = sent;
    other["read_gb_s"] = nlohmann::json::parse(wrong);
    CHECK_FALSE(machine_from(other));
  }
}
