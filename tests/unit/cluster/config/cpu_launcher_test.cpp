// The cores that workers are bound to, and the options that configure them.
#include "cluster/machines/worker_cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;

namespace {

using core_list = std::vector<std::uint32_t>;

cpu_launcher launcher(const std::string& words) {
  auto read = parse_launcher_args(words);
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(read->notes.empty());
  read->how.is_enabled = true;
  return read->how;
}

std::string launcher_refusal(const std::string& words) {
  const auto read = parse_launcher_args(words);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::bad_config);
  return read.error().message;
}

// Four cores of two hardware threads each, the second two of NUMA node 1.
const machine_cores machine{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3}, {2, 3, 6, 7}};

core_list bound(const std::string& words, std::uint32_t before, std::uint32_t own,
                std::uint32_t all) {
  const auto cores = cores_of(launcher(words), machine, {before, own, all});
  REQUIRE_MESSAGE(cores, cores.error().message);
  return cores->bound;
}

} // namespace

TEST_CASE("each worker has cores of its own") {
  CHECK(bound("", 0, 1, 2) == core_list{0, 1});
  CHECK(bound("", 1, 1, 2) == core_list{2, 3});
  CHECK(bound("", 0, 1, 1) == core_list{0, 1, 2, 3});
  CHECK(bound("", 2, 1, 3) == core_list{2}); // not one of the fourth
  CHECK(bound("--ncores-per-instance 1", 2, 1, 3) == core_list{2});
  CHECK(bound("--use-logical-core", 3, 1, 4) == core_list{6, 7});
  CHECK(bound("--node-id 1", 0, 1, 1) == core_list{2, 3});
  CHECK(bound("--use_logical_core --node_id=1", 1, 1, 2) == core_list{6, 7});
  CHECK(bound("--latency-mode", 1, 1, 2) == core_list{0, 1, 2, 3}); // shared: there are only four
  CHECK(bound("--core-list 5,1,3 --ncores-per-instance 1", 0, 1, 2) == core_list{5});
  CHECK(bound("--core-list 5,1,3 --ncores-per-instance 1", 2, 1, 3) == core_list{3});
}

TEST_CASE("more workers than cores share them") {
  CHECK(bound("", 3, 1, 9) == core_list{3});
  CHECK(bound("", 4, 1, 9) == core_list{0});
}

TEST_CASE("a group has the cores of all its ranks") {
  CHECK(bound("", 1, 2, 4) == core_list{1, 2});
  CHECK(bound("", 0, 8, 8) == core_list{0, 1, 2, 3});
}

TEST_CASE("a worker's libraries use a share of the cores") {
  const auto threads = [](const cpu_launcher& how, worker_processes who) {
    return cores_of(how, machine, who)->threads;
  };
  CHECK(threads({}, {0, 1, 1}) == 4);
  CHECK(threads({}, {0, 1, 2}) == 2);
  CHECK(threads({}, {0, 1, 3}) == 1);
  CHECK(threads({}, {0, 1, 9}) == 1);
  CHECK(cores_of({}, machine, {0, 1, 2})->bound.empty());
  CHECK(cores_of({}, {}, {0, 1, 1})->threads == 1);
  CHECK(threads(launcher("--use-logical-core"), {0, 1, 2}) == 4); // as many as it is bound to
  CHECK(threads(launcher(""), {0, 2, 2}) == 2);
}

TEST_CASE("options of run_cpu without effect here give their reason") {
  const auto read = parse_launcher_args("--node-id 0 --ninstances 4 --rank=1 --enable_tcmalloc "
                                        "--log-path logs --disable-numactl -m");
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(read->taken == std::vector<std::string>{"--node-id", "0"});
  REQUIRE(read->notes.size() == 6);
  CHECK(read->notes[0].starts_with("--ninstances: TorchServe sets it itself"));
  CHECK(read->notes[2].starts_with("--enable-tcmalloc: LD_PRELOAD"));
}

TEST_CASE("an unknown option of run_cpu is refused by its name") {
  CHECK(launcher_refusal("--cores 2").starts_with("--cores is not known"));
  CHECK(launcher_refusal("stray").starts_with("stray is not known"));
  CHECK(launcher_refusal("--ncores-per-instance").starts_with("--ncores-per-instance needs"));
  CHECK(launcher_refusal("--ncores-per-instance 0").starts_with("--ncores-per-instance needs"));
  CHECK(launcher_refusal("--ncores-per-instance 2 4").find("several numbers") != std::string::npos);
  CHECK(launcher_refusal("--node-id x").starts_with("--node-id needs"));
  CHECK(launcher_refusal("--core-list 1,1 --ncores-per-instance 1").starts_with("--core-list"));
  CHECK(launcher_refusal("--core-list 1,a --ncores-per-instance 1").starts_with("--core-list"));
  CHECK(launcher_refusal("--core-list 0,1").find("--ncores-per-instance") != std::string::npos);
}

TEST_CASE("cores missing on the machine are refused") {
  const auto wrong = [](const std::string& words, const machine_cores& here) {
    const auto cores = cores_of(launcher(words), here, {0, 1, 1});
    REQUIRE_FALSE(cores);
    return cores.error().message;
  };
  CHECK(wrong("--core-list 0,9 --ncores-per-instance 1", machine).find("core 9") !=
        std::string::npos);
  CHECK(wrong("--node-id 3", {{0}, {0}, {}}).starts_with("--node-id 3: this machine has no core"));
}
