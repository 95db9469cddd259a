// Nodes that are added and removed while the cluster runs, by the current nodes.toml.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/membership/membership.hpp"
#include "cluster/plan/plan.hpp"
#include "tests/unit/cluster/replaced.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;
using baton::testing::replaced;

namespace {

using names = std::set<std::string>;
using agent_indices = std::map<std::string, std::uint32_t>;

constexpr std::string_view two_nodes = R"(
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
constexpr std::string_view node_c = R"(
[[nodes]]
name = "c"
host = "10.0.0.3"
devices = ["cpu:0-3"]
waits = true
)";

cluster_config read_members_config(const std::string& text) {
  auto config = parse_config(text, "nodes.toml");
  REQUIRE_MESSAGE(config, config.error().message);
  return std::move(*config);
}

struct cluster_of_two {
  membership members;
  cluster_config running = read_members_config(std::string(two_nodes));
  cluster_of_two() { REQUIRE(assign_agent_indices(members, running)); }

  result<void> check(const std::string& text) const {
    return check_grown(running, read_members_config(text), members);
  }
  void remove(const std::string& node) {
    members.removed.insert(node);
    std::erase_if(running.nodes, [&](const node_config& n) { return n.name == node; });
  }
};

} // namespace

TEST_CASE("a node keeps its process ids, whatever changes before it in the file") {
  cluster_of_two c;
  CHECK(c.members.agent_indices == agent_indices{{"a", 0}, {"b", 1}});
  auto grown = read_members_config(std::string(two_nodes) + std::string(node_c));
  CHECK(*assign_agent_indices(c.members, grown) == names{"c"});
  CHECK(grown.nodes[2].agent_index == 2);
  c.members.removed = {"b"};
  auto less = read_members_config(std::string(two_nodes) + std::string(node_c));
  CHECK(assign_agent_indices(c.members, less)->empty());
  REQUIRE(less.nodes.size() == 2);
  CHECK(less.nodes[1].name == "c");
  CHECK(less.nodes[1].agent_index == 2);
  const auto agents = agents_of(less);
  CHECK(agents[1].process == process_ids::agent(2));
  CHECK(agents[1].listens_as.port_offset == 5); // root, head, desk, a, b
  SUBCASE("a node that replaces another's table gets its own ids") {
    auto other = read_members_config(
        replaced(std::string(two_nodes) + std::string(node_c), "\"b\"", "\"d\""));
    CHECK(*assign_agent_indices(c.members, other) == names{"d"});
    CHECK(c.members.agent_indices.at("d") == 3);
  }
  SUBCASE("a node that comes back keeps its ids") {
    c.members.removed.clear();
    auto again = read_members_config(std::string(two_nodes));
    CHECK(assign_agent_indices(c.members, again)->empty());
    CHECK(again.nodes[1].agent_index == 1);
  }
}

TEST_CASE("agents' ports follow those of all heads") {
  auto config = read_members_config(replaced(two_nodes, "path =", "replicas = 2\npath ="));
  membership members;
  REQUIRE(assign_agent_indices(members, config));
  const auto agents = agents_of(config);
  CHECK(head_name(1).port_offset == 3);
  CHECK(agents[0].listens_as.port_offset == 4);
  CHECK(agents[1].listens_as.port_offset == 5);
}

TEST_CASE("the number of ids is limited") {
  membership members;
  members.agent_indices = {{"x", nodes_of_cluster_max - 2}};
  auto config = read_members_config(std::string(two_nodes));
  const auto taken = assign_agent_indices(members, config);
  REQUIRE(!taken);
  CHECK(taken.error().code == errc::bad_config);
}

TEST_CASE("a running cluster accepts a file with more nodes, and no other change") {
  cluster_of_two c;
  const std::string more = std::string(two_nodes) + std::string(node_c);
  CHECK(c.check(std::string(two_nodes)));
  CHECK(c.check(more));
  CHECK(c.check("# a comment\n" + more));
  const auto why = [&](const std::string& text) {
    const auto checked = c.check(text);
    REQUIRE(!checked);
    CHECK(checked.error().code == errc::conflict);
    return checked.error().message;
  };
  CHECK(why(replaced(more, "[model]", "[model]\nmax_num_seqs = 8")).starts_with("[model] of"));
  CHECK(why(replaced(more, "[model]", "[gateway]\nthreads = 2\n[model]"))
            .starts_with("[gateway] of"));
  CHECK(
      why(replaced(more, "[cluster]", "[cluster]\nnode_timeout = 3")).starts_with("[cluster] of"));
  CHECK(why(replaced(two_nodes, "\"b\"", "\"x\"")).find("`cluster remove-node b`") !=
        std::string::npos);
  CHECK(why(replaced(more, "10.0.0.2", "10.0.0.4"))
            .starts_with("node b differs between nodes.toml and the cluster"));
  CHECK(why(replaced(more, "\"cpu:0-3\"]\nwaits = true", "\"cpu:0-3\"]"))
            .starts_with("node c is new and does not wait"));
  CHECK(why(replaced(more, "10.0.0.3", "10.0.0.1"))
            .starts_with("node c is new and on the machine of `cluster up`"));
}

TEST_CASE("a removed node may stay in the file, or not") {
  cluster_of_two c;
  c.remove("b");
  CHECK(c.check(std::string(two_nodes)));
  const auto at = two_nodes.find("[[nodes]]\nname = \"b\"");
  CHECK(c.check(std::string(two_nodes.substr(0, at))));
  c.members.removed.clear(); // it is to come back
  CHECK(c.check(std::string(two_nodes)));
  CHECK(
      c.check(replaced(two_nodes, "waits = true", ""))); // it was counted when the cluster came up
}

TEST_CASE("the root's node update survives its text form") {
  const node_update update{"[model]\nname = \"m\"", {{{"a", 0}, {"b", 7}}, {"b"}}};
  const auto read_members_config = node_update_from(text_of(update));
  REQUIRE(read_members_config);
  CHECK(read_members_config->config == update.config);
  CHECK(read_members_config->members == update.members);
  CHECK_FALSE(node_update_from("{}"));
  CHECK_FALSE(node_update_from("no json"));
  CHECK_FALSE(
      node_update_from(R"({"config": "", "members": {"places": {"a": -1}, "removed": 3}})"));
}
