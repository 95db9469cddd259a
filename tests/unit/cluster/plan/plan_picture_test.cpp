// The plan's drawing: the path of a token, and the machines with their measured values.
#include "cluster/plan/plan_picture.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::cluster;

namespace {

machine_facts facts_of(std::vector<std::uint32_t> cores, read_speed reads, link_speed link) {
  machine_facts facts{std::move(cores), 8ull << 30};
  facts.reads = reads;
  facts.link = link;
  return facts;
}

const machines known_machine{{root_machine, facts_of({0, 1}, {}, {})},
                             {"b", facts_of({4}, {10.5, 21}, {0.002, 100e6})}};

cluster_plan plan_over_both() {
  cluster_config c;
  c.name = "t";
  c.model.name = "m";
  c.model.pipeline_parallel_size = 2;
  c.nodes = {{"a", "127.0.0.1", {"cpu:0"}, "", "", false},
             {"b", "10.0.0.2", {"cpu:0"}, "", "", true}};
  auto plan = make_plan(c, small_model(), known_machine);
  REQUIRE_MESSAGE(plan, plan.error().message);
  return *std::move(plan);
}

} // namespace

TEST_CASE("each stage is a line with its layers, with the time of a link between") {
  auto plan = plan_over_both();
  plan.shards[0].layers = {0, 10, true, false};
  plan.shards[1].layers = {10, 20, false, true};
  CHECK(plan_picture(plan, small_model(), known_machine) ==
        "  client -> gateway -> head\n"
        "            |\n"
        "  stage 0   [##########....................]  shard-0 on a\n"
        "            |  1.02 ms to node b\n"
        "  stage 1   [..........####################]  shard-1 on b\n"
        "            |  1.02 ms to this machine\n"
        "  client <- gateway <- head\n");
}

TEST_CASE("a stage of one layer among many is visible, and no bar is wider than a screen") {
  auto plan = plan_over_both();
  auto model = small_model();
  model.layer_count = 400;
  plan.shards[0].layers = {0, 399, true, false};
  plan.shards[1].layers = {399, 1, false, true};
  const auto picture = plan_picture(plan, model, {});
  CHECK(picture.find("[" + std::string(39, '#') + ".]  shard-0") != std::string::npos);
  CHECK(picture.find("[" + std::string(39, '.') + "#]  shard-1") != std::string::npos);
  CHECK(picture.find(" ms") == std::string::npos); // no link is known
}

TEST_CASE("machines are listed with their measured values, and nothing else") {
  CHECK(machines_text(known_machine) ==
        "  this machine: 2 cores, 8.0 GiB free\n"
        "  node b: 1 core, 8.0 GiB free, reads 21.0 GB/s (10.5 by one thread), link 2.00 ms round "
        "trip, 100 MB/s\n");
  const auto json = machines_json(known_machine);
  REQUIRE(json.size() == 2);
  CHECK(json[0]["node"].is_null());
  CHECK_FALSE(json[0].contains("link"));
  CHECK(json[1]["read_gb_per_second"]["all_cores"] == 21);
  CHECK(json[1]["link"]["bytes_per_second"] == 100e6);
}

TEST_CASE("every node of a stage is named, also if one name is the end of another") {
  auto plan = plan_over_both();
  plan.stages = 1;
  plan.width = 2;
  plan.shards[1].stage = 0;
  plan.shards[0].on = "ba";
  plan.shards[1].on = "a";
  CHECK(plan_picture(plan, small_model(), {}).find("shard-0 + shard-1 on ba, a\n") !=
        std::string::npos);
}
