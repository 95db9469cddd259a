// An agent's view of the cluster: broken messages of the root change nothing.
#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/roles/agent/agent_state.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace baton;
using namespace baton::cluster;

namespace {

constexpr const char* two_agents = R"(
[cluster]
host = "10.0.0.1"
[model]
name = "m"
path = "m.gguf"
[[nodes]]
name = "a"
host = "10.0.0.1"
devices = ["cpu:0"]
[[nodes]]
name = "b"
host = "10.0.0.2"
devices = ["cpu:0"]
waits = true
)";

const machines known_to_agent{{root_machine, {{0, 1}, 8ull << 30}}, {"b", {{0, 1}, 8ull << 30}}};

// The agent of machine b, which waits in the first generation.
struct agent_fixture {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("agent-state-{}", getpid());
  cluster_contexts all = contexts();
  std::vector<agent_plan> agents = agents_of(all.base.config);
  const agent_plan& own = *agent_on(agents, "b");
  agent_state state{all, own};

  ~agent_fixture() { std::filesystem::remove_all(path); }

  cluster_contexts contexts() const {
    auto config = parse_config(two_agents, "nodes.toml");
    REQUIRE_MESSAGE(config, config.error().message);
    plan_record with;
    with.known = known_to_agent;
    REQUIRE(assign_agent_indices(with.members, *config));
    auto dir = run_dir::open(path);
    REQUIRE(dir);
    const auto view = config_for(*config, 0);
    const auto first = first_generation(view);
    with.pipelines[0].generations = recorded_generations{{first, std::nullopt}, first.number};
    auto where = addresses::create(*dir, std::nullopt);
    REQUIRE(where);
    auto plan = make_plan(view, small_model(), with.known, first);
    REQUIRE_MESSAGE(plan, plan.error().message);
    const cluster_base base{*config, with, *dir, *where, two_agents};
    return {base, {{{view, with, *dir, *where, ""}, small_model(), *plan, std::nullopt}}};
  }
  joined news(std::string config = two_agents) const {
    return {json_of(known_to_agent).dump(), "",
            text_of(node_update{std::move(config), all.base.made_with.members})};
  }
};

const generations with_node_b{{0, 1, {"b"}}, generation{1, 2, {}}};

} // namespace

TEST_CASE("an agent takes over nodes and generations, persists them and knows its shards") {
  agent_fixture f;
  CHECK(f.state.shards().empty());
  const auto took = f.state.take(f.news());
  REQUIRE_MESSAGE(took, took.error().message);
  CHECK(*took); // on a machine of its own
  const auto changed = f.state.take(with_node_b);
  REQUIRE_MESSAGE(changed, changed.error().message);
  CHECK(*changed);
  CHECK(f.state.plans(0).size() == 2);
  CHECK(f.state.serving() == std::set<std::uint32_t>{0});
  const auto shards = f.state.shards();
  REQUIRE(shards.size() == 1);
  CHECK(process_ids::generation_of(shards[0].process) == 1);
  const auto record = recorded_plan(f.all.base.dir);
  REQUIRE(record);
  CHECK(record->pipelines.at(0).generations->now == with_node_b);
  auto other = with_node_b;
  other.pipeline = 1;
  const auto elsewhere = f.state.take(other);
  REQUIRE(elsewhere);
  CHECK_FALSE(*elsewhere);
}

TEST_CASE("broken facts, nodes and generations of the root are errors, and change nothing") {
  agent_fixture f;
  REQUIRE(f.state.take(f.news()));
  REQUIRE(f.state.take(with_node_b));
  const auto before = f.state.shards();
  auto news = f.news();
  SUBCASE("facts that are not readable") {
    news.facts = "[]";
  }
  SUBCASE("nodes that are not readable") {
    news.nodes = "{";
  }
  SUBCASE("a configuration with an error") {
    news = f.news("[model]\nname = 1\n");
  }
  SUBCASE("a configuration without the pipeline") {
    auto more = std::string(two_agents);
    more.replace(more.find("[model]\n"), 8, "[model]\nreplicas = 2\n");
    news = f.news(more);
  }
  SUBCASE("generations that cannot be planned") {
    auto bad = with_node_b;
    bad.coming->stages = 3; // of two devices
    CHECK_FALSE(f.state.take(bad));
    bad = with_node_b;
    bad.serving.width = 0;
    CHECK_FALSE(f.state.take(bad));
  }
  const auto took = f.state.take(news);
  CHECK(took.has_value() == (news.facts == f.news().facts && news.nodes == f.news().nodes));
  REQUIRE(f.state.shards().size() == before.size());
  CHECK(f.state.shards()[0].process == before[0].process);
  CHECK(recorded_plan(f.all.base.dir)->pipelines.at(0).generations->now == with_node_b);
}
