// Commands that start a node, as real processes: their input, and their restarts.
#include "cluster/join/node_launcher.hpp"
#include "tests/support/deadline_scale.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;
using baton::testing::scaled;

namespace {

struct scene {
  testing::scratch_directory scratch;
  std::mutex mutex;
  std::vector<std::string> ends;
  std::unique_ptr<node_launcher> launcher;

  scene() {
    launcher = std::make_unique<node_launcher>(
        *run_dir::open(scratch.path()), [this](const std::string& node, const std::string& why) {
          std::lock_guard lock(mutex);
          ends.push_back(node + " " + why);
        });
  }
  std::vector<std::string> wait_for(std::size_t count) {
    const auto deadline = node_launcher::clock::now() + scaled(10s);
    for (;;) {
      {
        std::lock_guard lock(mutex);
        if (ends.size() >= count || node_launcher::clock::now() > deadline)
          return ends;
      }
      poll(nullptr, 0, 5);
    }
  }
  std::string file(const char* name) {
    std::ifstream in(scratch.path() / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

} // namespace

TEST_CASE("the command is followed by cluster join, and its token is its input") {
  scene s;
  REQUIRE(s.launcher->keep("b", "sh -c 'read token; echo \"$0 $* <$token>\"'",
                           "tcp://10.0.0.1:8012#ab", "secret"));
  s.launcher->tick(node_launcher::clock::now());
  REQUIRE(s.wait_for(1).size() == 1);
  CHECK(s.file("launch-b.log") ==
        "cluster join tcp://10.0.0.1:8012#ab --node b --token - <secret>\n");
}

TEST_CASE("a command that ends is restarted after growing pauses, and reports why it ended") {
  scene s;
  REQUIRE(s.launcher->keep("b", "sh -c 'echo no route to host; exit 255'", "tcp://a:1#ab", ""));
  auto now = node_launcher::clock::now();
  s.launcher->tick(now);
  auto ends = s.wait_for(1);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0] == "b its launch command has ended (exit status 255): no route to host");
  s.launcher->tick(now + 1s);
  CHECK(s.wait_for(1).size() == 1);
  s.launcher->tick(now + 20s);
  CHECK(s.wait_for(2).size() == 2);
  s.launcher->tick(now + 3s); // 4 s from its end
  poll(nullptr, 0, 50);
  CHECK(s.wait_for(2).size() == 2);
}

TEST_CASE("the command of a removed node is not restarted until the node comes back") {
  scene s;
  REQUIRE(s.launcher->keep("b", "sh -c 'exit 0'", "tcp://a:1#ab", ""));
  auto now = node_launcher::clock::now();
  s.launcher->tick(now);
  REQUIRE(s.wait_for(1).size() == 1);
  s.launcher->drop("b");
  s.launcher->tick(now + 60s);
  poll(nullptr, 0, 50);
  CHECK(s.wait_for(1).size() == 1);
  REQUIRE(s.launcher->keep("b", "sh -c 'exit 3'", "tcp://a:1#ab", ""));
  s.launcher->tick(now + 60s);
  const auto ends = s.wait_for(2);
  REQUIRE(ends.size() == 2);
  CHECK(ends[1] == "b its launch command has ended (exit status 3)");
}

TEST_CASE("a running command is asked to stop with us") {
  scene s;
  REQUIRE(s.launcher->keep("b", "sh -c 'echo $$; exec sleep 60'", "tcp://a:1#ab", ""));
  s.launcher->tick(node_launcher::clock::now());
  const auto deadline = node_launcher::clock::now() + scaled(10s);
  while (s.file("launch-b.log").empty() && node_launcher::clock::now() < deadline)
    poll(nullptr, 0, 5);
  const auto pid = std::stoi(s.file("launch-b.log"));
  pollfd end{static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  REQUIRE(end.fd >= 0);
  CHECK(poll(&end, 1, 0) == 0);
  s.launcher.reset(); // whose thread may still reap it
  CHECK(poll(&end, 1, static_cast<int>(scaled(10s).count())) == 1);
  waitpid(pid, nullptr, 0);
  close(end.fd);
}
