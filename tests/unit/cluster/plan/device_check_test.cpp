// Goal: the number of ranks of one stage on one device is known before shards start. Method:
// configurations alone.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/plan/device_check.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

cluster_config config_of(const std::string& tables) {
  auto read = parse_config(tables, "nodes.toml");
  REQUIRE_MESSAGE(read, read.error().message);
  return *std::move(read);
}

std::string model_table(const std::string& name, const std::string& more) {
  return "[[models]]\nname = \"" + name + "\"\npath = \"m.gguf\"\n" + more + "\n";
}

std::string node(const std::string& name, const std::string& devices) {
  return "[[nodes]]\nname = \"" + name + "\"\ndevices = [" + devices + "]\n";
}

} // namespace

TEST_CASE("the ranks of a stage on one device are counted") {
  const auto two =
      config_of(model_table("m", "tensor_parallel_size = 2") + node("a", "\"cuda:0\", \"cuda:0\""));
  CHECK(ranks_on_device(two, two.nodes[0], "cuda:0") == 2);
  const auto apart =
      config_of(model_table("m", "tensor_parallel_size = 2") + node("a", "\"cuda:0\", \"cuda:1\""));
  CHECK(ranks_on_device(apart, apart.nodes[0], "cuda:0") == 1);
  CHECK(ranks_on_device(apart, apart.nodes[0], "cuda:7") == 1); // of no rank
}

TEST_CASE("stages, replicas and other models on the same device do not count") {
  const auto stages =
      config_of(model_table("m", "tensor_parallel_size = 2\npipeline_parallel_size = 2") +
                node("a", "\"cuda:0\", \"cuda:1\", \"cuda:1\", \"cuda:0\""));
  CHECK(ranks_on_device(stages, stages.nodes[0], "cuda:0") == 1);
  CHECK(ranks_on_device(stages, stages.nodes[0], "cuda:1") == 1);
  const auto others =
      config_of(model_table("m", "tensor_parallel_size = 2") + model_table("n", "replicas = 2") +
                node("a", "\"cuda:0\", \"cuda:1\", \"cuda:0\", \"cuda:0\""));
  CHECK(ranks_on_device(others, others.nodes[0], "cuda:0") == 1);
}

TEST_CASE("devices of the same name on two nodes are different") {
  const auto both = config_of(model_table("m", "tensor_parallel_size = 2") +
                              node("a", "\"cuda:0\"") + node("b", "\"cuda:0\""));
  CHECK(ranks_on_device(both, both.nodes[0], "cuda:0") == 1);
  CHECK(ranks_on_device(both, both.nodes[1], "cuda:0") == 1);
}
