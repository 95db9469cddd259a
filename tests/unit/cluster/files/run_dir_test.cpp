// The run directory detects which of its processes are alive, and never mistakes another process
// with a reused pid for one.
#include "cluster/files/memory_file.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/plan/addresses.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("only processes with the recorded start time count as alive") {
  auto path = std::filesystem::temp_directory_path() / fmt::format("run-dir-test-{}", getpid());
  auto dir = run_dir::open(path);
  REQUIRE(dir);
  REQUIRE(dir->record("root", incarnation_id{7}));
  std::ofstream(path / "stranger.pid") << getpid() << " 12345 1\n";
  std::ofstream(path / "garbage.pid") << "not a pid\n";
  std::ofstream(path / "gone.pid") << 999999999 << " 1 1\n";
  auto alive = dir->alive();
  REQUIRE(alive.size() == 1);
  CHECK(alive[0].name == "root");
  CHECK(alive[0].pid == getpid());
  CHECK(alive[0].incarnation == incarnation_id{7});
  const int pidfd = open_recorded(alive[0]);
  CHECK(pidfd >= 0);
  close(pidfd);
  ++alive[0].start_ticks; // the record of an earlier process with this pid
  CHECK(open_recorded(alive[0]) == -1);
  dir->forget("root");
  CHECK(dir->alive().empty());
  std::ofstream(path / "a-1.sock") << "";
  std::ofstream(dir->crash_record("gateway")) << "";
  dir->remove_stale_files();
  CHECK_FALSE(std::filesystem::exists(path / "a-1.sock"));
  CHECK_FALSE(std::filesystem::exists(path / "gateway.crashes"));
  CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::group_all) ==
        std::filesystem::perms::none);
  std::filesystem::remove_all(path);
}

TEST_CASE("the memory of a recorded process is opened by its name, and never another process's") {
  auto path = std::filesystem::temp_directory_path() / fmt::format("run-dir-kv-{}", getpid());
  auto dir = run_dir::open(path);
  REQUIRE(dir);
  REQUIRE(dir->record("shard-0", incarnation_id{7}));
  auto own = memory_file::create("shard-0-kv");
  auto other = memory_file::create("shard-0-kv-not");
  REQUIRE(own);
  REQUIRE(other);
  REQUIRE(write(own->fd(), "kept", 4) == 4);
  auto notes = dir->alive();
  REQUIRE(notes.size() == 1);
  const auto found = open_memory_of(notes[0], "-kv");
  REQUIRE(found.size() == 1);
  char text[8] = {};
  CHECK(pread(found[0], text, sizeof text, 0) == 4);
  CHECK(std::string(text) == "kept");
  CHECK(write(found[0], "x", 1) == -1); // read-only
  close(found[0]);
  ++notes[0].start_ticks; // the record of an earlier process with this pid
  CHECK(open_memory_of(notes[0], "-kv").empty());
  std::filesystem::remove_all(path);
}

TEST_CASE("one root at a time, and its plan is available to the next") {
  auto path = std::filesystem::temp_directory_path() / fmt::format("run-dir-lock-{}", getpid());
  auto dir = run_dir::open(path);
  REQUIRE(dir);
  REQUIRE(dir->lock());
  auto again = dir->lock();
  REQUIRE_FALSE(again);
  CHECK(again.error().code == errc::conflict);
  CHECK_FALSE(recorded_plan(*dir));
  plan_record note{"1.2 (with spaces)",
                   {{{"a", 0}, {"b", 1}}, {"b"}},
                   {{root_machine, {{0, 2}, 12345, {2}}}},
                   std::nullopt,
                   {}};
  const recorded_generations changes{{{4, 2, {"b"}}, generation{6, 3, {}}, 1}, 6};
  note.pipelines = {{0, {~0ull, std::nullopt}}, {1, {5, changes}}};
  REQUIRE(record_plan(*dir, note));
  auto plan = recorded_plan(*dir);
  REQUIRE(plan);
  CHECK(plan->build == "1.2 (with spaces)");
  CHECK(plan->members == note.members);
  CHECK(plan->known.at(root_machine).memory_available_bytes == 12345);
  CHECK(plan->known.at(root_machine).siblings == std::vector<std::uint32_t>{2});
  CHECK(plan->pipelines.at(0).model_identity == ~0ull);
  CHECK_FALSE(plan->pipelines.at(0).generations);
  CHECK(plan->pipelines.at(1).generations == changes);
  CHECK_FALSE(plan->network);
  note.network = network_record{"10.0.0.2", "10.0.0.1", 8010, std::string(64, 'a'), "/k"};
  REQUIRE(record_plan(*dir, note));
  plan = recorded_plan(*dir);
  REQUIRE(plan);
  REQUIRE(plan->network);
  CHECK(plan->network->root_host == "10.0.0.1");
  CHECK(plan->network->key_file == "/k");
  REQUIRE(dir->write("plan", "12345 678\n0.1 of before\n"));
  CHECK_FALSE(recorded_plan(*dir));
  std::filesystem::remove_all(path);
}

TEST_CASE("on one machine processes meet at sockets, between machines at ports with keys") {
  auto path = std::filesystem::temp_directory_path() / fmt::format("addresses-{}", getpid());
  auto dir = run_dir::open(path);
  REQUIRE(dir);
  const auto near = "ipc://" + path.string();
  auto one = addresses::create(*dir, std::nullopt);
  REQUIRE(one);
  CHECK_FALSE(one->keys().is_set());
  CHECK(one->listen(root_name) == near + "/root.sock");
  CHECK(one->listen("shard-0", incarnation_id{5}) == near + "/shard-0-5.sock");
  CHECK(one->find(head_name(0)) == near + "/head.sock");

  const std::string mine(64, '1');
  const std::string roots(64, 'a');
  network_record net{"10.0.0.2", "10.0.0.1", 8010, roots, path / "key"};
  CHECK(addresses::create(*dir, net).error().code == errc::not_found);
  REQUIRE(write_key_file(path / "key", {mine, std::string(64, '2')}));
  REQUIRE(record_keys(*dir, {{root_machine, roots}, {"b", mine}}));
  CHECK(recorded_keys(*dir).newest("b") == mine);
  CHECK(recorded_keys(*dir).newest(root_machine) == roots);
  auto there = addresses::create(*dir, net);
  REQUIRE(there);
  CHECK(there->listen(agent_name("agent-b", 1, 1)) == "tcp://10.0.0.2:8014");
  CHECK(there->listen("shard-0", incarnation_id{5}) == "tcp://10.0.0.2:*");
  CHECK(there->find(agent_name("agent-b", 1, 1)) == "tcp://10.0.0.2:8014#" + mine);
  CHECK(there->find(root_name) == "tcp://10.0.0.1:8010#" + roots);
  CHECK(there->find(head_name(0)) == "tcp://10.0.0.1:8011#" + roots);
  CHECK(there->keys().trusted->holds(roots));
  REQUIRE(record_keys(*dir, {{"b", mine}}));
  there->refresh();
  CHECK_FALSE(there->keys().trusted->holds(roots));

  CHECK_FALSE(there->changed_key(mine));
  const std::string next(64, '7');
  std::filesystem::remove(path / "key");
  CHECK_FALSE(there->changed_key(mine)); // an unreadable file changes nothing
  REQUIRE(write_key_file(path / "key", {next, std::string(64, '8')}));
  CHECK_FALSE(there->changed_key(mine)); // nor does a key that would be rejected
  REQUIRE(record_keys(*dir, {{"b", mine}, {"b", next}}));
  CHECK(there->changed_key(mine)->public_key == next);
  CHECK_FALSE(there->changed_key(next));
  CHECK_FALSE(one->changed_key(mine));
  there->record_key("shard-0", next);
  CHECK(dir->recorded_key("shard-0") == next);
  dir->forget("shard-0");
  CHECK(dir->recorded_key("shard-0").empty());

  const std::string roots_next(64, 'e');
  REQUIRE(record_keys(*dir, {{root_machine, roots}, {root_machine, roots_next}, {"b", mine}}));
  CHECK(there->find(root_name) == "tcp://10.0.0.1:8010#" + roots_next);
  REQUIRE(record_keys(*dir, {{"b", mine}}));
  std::filesystem::remove(path / "key");
  REQUIRE(write_key_file(path / "key", {mine, std::string(64, '2')}));

  net.host = net.root_host;
  net.root_key = mine;
  auto here = addresses::create(*dir, net);
  REQUIRE(here);
  CHECK(here->listen(head_name(0)) == "tcp://10.0.0.1:8011");
  CHECK(here->find(head_name(1)) == "tcp://10.0.0.1:8013#" + mine); // before the agents
  CHECK(here->find(head_name(0)) == "tcp://10.0.0.1:8011#" + mine);
  std::filesystem::remove_all(path);
}

TEST_CASE("a path too long for socket names is refused") {
  auto dir = run_dir::open("/tmp/" + std::string(90, 'x'));
  REQUIRE_FALSE(dir);
  CHECK(dir.error().message.find("run_dir") != std::string::npos);
}

TEST_CASE("the last line of a log is UTF-8, whatever was written") {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("run-dir-log-{}", getpid());
  const auto last_of = [&](const std::string& written) {
    std::ofstream(path, std::ios::binary) << written;
    return last_line(path);
  };
  CHECK(last_of("first\nna\u00efve\n\n") == "na\u00efve");
  CHECK(last_of("\xff\xfe gone \xc3") == "\ufffd\ufffd gone \ufffd");
  CHECK(last_of("") == "");
  std::filesystem::remove(path);
  CHECK(last_line(path) == "");
}

TEST_CASE("a read-only caller leaves no run directory") {
  const auto base = std::filesystem::temp_directory_path() / fmt::format("baton-look-{}", getpid());
  const auto path = base / "a";
  {
    const unused_run_dir looked_at(path);
    REQUIRE(run_dir::open(path));
    CHECK(std::filesystem::exists(path));
  }
  CHECK_FALSE(std::filesystem::exists(base));
  {
    const unused_run_dir looked_at(path);
    const auto dir = run_dir::open(path);
    REQUIRE(dir);
    REQUIRE(dir->write("kept", "x"));
  }
  CHECK(std::filesystem::exists(path / "kept"));
  std::filesystem::remove(path / "kept");
  const unused_run_dir was_there(path);
  CHECK(std::filesystem::exists(path)); // also after its end: it was not made meanwhile
  std::filesystem::remove_all(base);
}
