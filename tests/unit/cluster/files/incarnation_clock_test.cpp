// Incarnations grow, whatever the machine's clock does.
#include "cluster/files/incarnation_clock.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;

namespace {

struct clock_place {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("baton-life-{}", ::getpid());
  std::uint64_t clock = 1'000'000;

  ~clock_place() { std::filesystem::remove_all(path); }
  incarnation_clock issuer(const std::string& name) {
    return incarnation_clock(*run_dir::open(path), name, [this] { return clock; });
  }
};

constexpr std::uint64_t hour = 3'600'000'000;

} // namespace

TEST_CASE("an incarnation is the clock's time, and two of one moment differ") {
  clock_place p;
  auto root = p.issuer("root");
  CHECK(root.next() == incarnation_id{1'000'000});
  CHECK(root.next() == incarnation_id{1'000'001});
  p.clock += hour;
  CHECK(root.next() == incarnation_id{1'000'000 + hour});
}

TEST_CASE("after a clock is set back incarnations still grow, also in the next process") {
  clock_place p;
  p.clock += hour;
  const auto before = p.issuer("root").next();
  p.clock -= hour;
  auto next = p.issuer("root");
  CHECK(next.next().value == before.value + 1);
  CHECK(next.next().value == before.value + 2);
  CHECK(p.issuer("root").next().value == before.value + 3);
  SUBCASE("other names have their own") {
    CHECK(p.issuer("agent-a").next() == incarnation_id{1'000'000});
  }
  SUBCASE("also after processes were forgotten, as when a cluster stops") {
    run_dir::open(p.path)->forget("root");
    CHECK(p.issuer("root").next().value == before.value + 4);
  }
  SUBCASE("and the clock applies again once it is later") {
    p.clock += 2 * hour;
    CHECK(p.issuer("root").next() == incarnation_id{p.clock});
  }
}

TEST_CASE("a note without a number is ignored") {
  clock_place p;
  (void)run_dir::open(p.path);
  std::ofstream(p.path / "root.life") << "soon";
  CHECK(p.issuer("root").next() == incarnation_id{1'000'000});
}
