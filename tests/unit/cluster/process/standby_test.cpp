// A standby copy of a process becomes its next incarnation. It has the state of the process, is
// called once, and leaves a copy in turn. It ends with its caller.
#include "cluster/files/memory_file.hpp"
#include "cluster/process/standby.hpp"
#include "tests/support/deadline_scale.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;
using baton::testing::scaled;

namespace {

const auto patience = scaled(20s);

struct orders {
  std::uint64_t incarnation = 0;
  std::int32_t pid = 0;
  int read_before = 0; // state of the process when the copy was made
};

// Incarnations report through a pipe and wait to be killed.
struct lineage {
  std::array<int, 2> pipe_ends{-1, -1};
  std::optional<standby_channel> channel;
  pid_t first = -1;

  lineage() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    REQUIRE(pipe(pipe_ends.data()) == 0);
    auto made = standby_channel::create();
    REQUIRE(made);
    channel = *std::move(made);
    first = fork();
    if (first == 0)
      live();
    close(pipe_ends[1]);
  }
  ~lineage() {
    close(pipe_ends[0]);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  [[noreturn]] void live() {
    const int value = 42;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int socket = dup(channel->for_child());
    channel.reset(); // only the agent may hold the agent's end
    const auto given = fork_standby(socket);
    orders t{given ? given->incarnation.value : 1, getpid(), value};
    if (given && given->file >= 0 && write(given->file, "kept", 4) != 4)
      t.incarnation = 0;
    (void)!write(pipe_ends[1], &t, sizeof t);
    for (;;)
      pause();
  }
  orders next() const {
    pollfd ready{pipe_ends[0], POLLIN, 0};
    orders t;
    REQUIRE(poll(&ready, 1, static_cast<int>(patience.count())) == 1);
    REQUIRE(read(pipe_ends[0], &t, sizeof t) == sizeof t);
    return t;
  }
  // The copy reports a moment after its original continues.
  std::int32_t activate(incarnation_id incarnation, int file = -1) {
    for (const auto until = std::chrono::steady_clock::now() + patience;
         std::chrono::steady_clock::now() < until; std::this_thread::yield())
      if (const auto pid = channel->activate({incarnation, getpid(), file}))
        return *pid;
    FAIL("no copy came");
    return -1;
  }
  static void end(pid_t pid) {
    kill(pid, SIGKILL);
    REQUIRE(waitpid(pid, nullptr, 0) == pid);
  }
};

} // namespace

TEST_CASE("a copy becomes the next incarnation and leaves a copy in turn") {
  lineage l;
  auto memory = memory_file::create("test");
  REQUIRE(memory);
  CHECK(l.next().pid == l.first);
  pid_t before = l.first;
  for (const std::uint64_t incarnation : {5u, 6u, 7u}) {
    CAPTURE(incarnation);
    lineage::end(before);
    const auto pid = l.activate({incarnation}, memory->fd());
    const auto t = l.next();
    CHECK(t.pid == pid);
    CHECK(t.incarnation == incarnation);
    CHECK(t.read_before == 42);
    CHECK(getpgid(pid) == pid);
    before = pid;
  }
  char text[16] = {};
  CHECK(pread(memory->fd(), text, sizeof text, 0) == 12);
  lineage::end(before);
  l.channel.reset(); // the last copy detects that its caller is gone
  CHECK(waitpid(-1, nullptr, 0) > 0);
}

TEST_CASE("without a copy a call fails") {
  auto channel = standby_channel::create();
  REQUIRE(channel);
  CHECK_FALSE(channel->activate({{5}, getpid(), -1}));
}
