// Limits of control groups, from files as the kernel writes them.
#include "cluster/machines/cgroup_limits.hpp"
#include "cluster/machines/machine.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton::cluster;

namespace {

struct cgroup_tree {
  void put(const std::string& group, const std::string& file, const std::string& text) {
    std::filesystem::create_directories(scratch / group);
    std::ofstream(scratch / group / file) << text;
  }
  cgroup_limits limits(std::string_view membership) {
    return limits_of_cgroup(membership, scratch / "");
  }
  baton::testing::scratch_directory scratch;
};

} // namespace

TEST_CASE("the tightest limit of a group and of those above it counts") {
  cgroup_tree tree;
  tree.put("pods", "memory.max", "8000\n");
  tree.put("pods", "memory.current", "1000\n");
  tree.put("pods", "cpu.max", "150000 100000\n");
  tree.put("pods/one", "memory.max", "4000\n");
  tree.put("pods/one", "memory.current", "3000\n");
  tree.put("pods/one", "memory.stat", "anon 500\ninactive_file 2400\nactive_file 7\n");
  tree.put("pods/one", "cpu.max", "max 100000\n");
  const auto limits = tree.limits("0::/pods/one\n");
  CHECK(limits.memory_available_bytes == 3400); // 600 are used, and cannot be dropped
  CHECK(limits.cpus == 1.5);
  CHECK(tree.limits("0::/pods\n").memory_available_bytes == 7000);
}

TEST_CASE("a container's own group is the mount") {
  cgroup_tree tree;
  tree.put("", "memory.max", "4096\n");
  tree.put("", "memory.current", "9000\n"); // above it for a moment
  tree.put("", "cpu.max", "50000 100000\n");
  for (const auto* membership : {"0::/\n", "0::/../other\n"}) {
    const auto limits = tree.limits(membership);
    CHECK(limits.memory_available_bytes == 0);
    CHECK(limits.cpus == 0.5);
  }
}

TEST_CASE("without limits, without cgroup v2, and with broken files there are none") {
  cgroup_tree tree;
  tree.put("free", "memory.max", "max\n");
  tree.put("free", "cpu.max", "max 100000\n");
  tree.put("broken", "memory.max", "\n");
  tree.put("broken", "cpu.max", "100000 0\n");
  for (const auto* membership :
       {"0::/free\n", "0::/broken\n", "0::/none\n", "", "12:cpu:/free\n", "10::/free\n"}) {
    const auto limits = tree.limits(membership);
    CHECK_FALSE(limits.memory_available_bytes);
    CHECK_FALSE(limits.cpus);
  }
}

TEST_CASE("a machine is as large as its control group allows") {
  machine_facts facts;
  facts.cores = {0, 1, 2, 3, 4, 5};
  facts.siblings = {1, 3, 5};
  facts.memory_available_bytes = 1000;
  obey({}, facts);
  CHECK(facts.cores.size() == 6);
  obey({.memory_available_bytes = 2000, .cpus = 2.5}, facts);
  CHECK(facts.cores == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(facts.siblings == std::vector<std::uint32_t>{1});
  CHECK(facts.memory_available_bytes == 1000);
  obey({.memory_available_bytes = 600, .cpus = 0.1}, facts);
  CHECK(facts.cores.size() == 1);
  CHECK(facts.memory_available_bytes == 600);
}
