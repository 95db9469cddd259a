// The run directory knows which of its processes are alive, and never takes a stranger with a
// reused pid for one.
#include "cluster/run_dir.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("only processes with the noted start time count as alive") {
  auto path = std::filesystem::temp_directory_path() / fmt::format("run-dir-test-{}", getpid());
  auto dir = run_dir::open(path);
  REQUIRE(dir);
  REQUIRE(dir->note("root", epoch_id{7}));
  std::ofstream(path / "stranger.pid") << getpid() << " 12345 1\n";
  std::ofstream(path / "garbage.pid") << "not a pid\n";
  std::ofstream(path / "gone.pid") << 999999999 << " 1 1\n";
  auto alive = dir->alive();
  REQUIRE(alive.size() == 1);
  CHECK(alive[0].name == "root");
  CHECK(alive[0].pid == getpid());
  CHECK(alive[0].epoch == epoch_id{7});
  const int pidfd = open_noted(alive[0]);
  CHECK(pidfd >= 0);
  close(pidfd);
  ++alive[0].start_ticks; // the note of one that had this pid before
  CHECK(open_noted(alive[0]) == -1);
  dir->forget("root");
  CHECK(dir->alive().empty());
  std::ofstream(path / "a-1.sock") << "";
  dir->clear_sockets();
  CHECK_FALSE(std::filesystem::exists(path / "a-1.sock"));
  CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::group_all) ==
        std::filesystem::perms::none);
  std::filesystem::remove_all(path);
}

TEST_CASE("one root at a time, and what it planned with is there for the next") {
  auto path = std::filesystem::temp_directory_path() / fmt::format("run-dir-lock-{}", getpid());
  auto dir = run_dir::open(path);
  REQUIRE(dir);
  REQUIRE(dir->lock());
  auto again = dir->lock();
  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::conflict);
  CHECK_FALSE(dir->noted_plan());
  REQUIRE(dir->note_plan({"1.2 (with spaces)", 12345, 678}));
  auto plan = dir->noted_plan();
  REQUIRE(plan);
  CHECK(plan->build == "1.2 (with spaces)");
  CHECK(plan->memory_available_bytes == 12345);
  CHECK(plan->model_identity == 678);
  std::filesystem::remove_all(path);
}

TEST_CASE("a path that leaves no room for socket names is refused") {
  auto dir = run_dir::open("/tmp/" + std::string(90, 'x'));
  REQUIRE_FALSE(dir);
  CHECK(dir.error().message.find("run_dir") != std::string::npos);
}
