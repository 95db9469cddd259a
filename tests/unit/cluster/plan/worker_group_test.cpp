// The processes of a worker: the environment of each, and their common end.
#include "cluster/config/readers/config_workers.hpp"
#include "cluster/files/exit_status.hpp"
#include "cluster/plan/worker_group.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

using namespace baton;
using namespace baton::cluster;

namespace {

// The status of waitpid. The launcher is a separate child, so that a signal ends only it.
struct launcher_end {
  bool is_signal = false;
  int number = 0;
};

pid_t launch_ranks(std::uint32_t count, const std::string& script) {
  const auto pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0)
    _exit(run_group({count, "tp", "job", 3}, {"/bin/sh", "-c", script}));
  return pid;
}

launcher_end end_of(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? launcher_end{true, WTERMSIG(status)}
                             : launcher_end{false, WEXITSTATUS(status)};
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_alive(const std::string& pid) {
  return kill(std::stoi(pid), 0) == 0;
}

// Starts once each of the others has reported.
std::string rank_0_waits_for(std::uint32_t others, const std::filesystem::path& at) {
  std::string script = "if [ $RANK = 0 ]; then ";
  for (std::uint32_t i = 1; i <= others; ++i)
    script += "until [ -s " + at.string() + "/" + std::to_string(i) + " ]; do sleep 0.01; done; ";
  return script + "fi; ";
}

} // namespace

TEST_CASE("each rank has torchrun's environment, and sockets with rank 0") {
  const testing::scratch_directory at;
  const auto dir = at.path().string();
  // The report comes last: rank 0 waits for it, and its end ends the others.
  const auto script =
      "echo $MASTER_PORT >" + dir +
      "/port$RANK; echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
      "$TORCHELASTIC_RUN_ID $OMP_NUM_THREADS $BATON_GROUP_PARALLEL >" +
      dir + "/$RANK; " + rank_0_waits_for(2, at.path()) + "exit 0";
  CHECK(end_of(launch_ranks(3, script)).number == 0);
  for (const auto* rank : {"0", "1", "2"})
    CHECK(text_of(at.path() / rank) == fmt::format("{} {} 3 3 0 127.0.0.1 job 3 tp\n", rank, rank));
  CHECK(std::stoi(text_of(at.path() / "port0")) > 0);
  CHECK(text_of(at.path() / "port0") == text_of(at.path() / "port2"));
}

TEST_CASE("a rank that fails ends the others, and the group with its status") {
  const testing::scratch_directory at;
  const auto others = "echo $$ >" + at.path().string() + "/$RANK; ";
  const auto wait = rank_0_waits_for(2, at.path()) + "exec tail -f /dev/null";
  SUBCASE("by its exit status, for any rank") {
    const auto end = end_of(launch_ranks(3, others + "[ $RANK = 2 ] && exit 78; " + wait));
    CHECK_FALSE(end.is_signal);
    CHECK(end.number == exit_permanent);
  }
  SUBCASE("by a signal") {
    const auto end =
        end_of(launch_ranks(3, others + "if [ $RANK = 0 ]; then " + rank_0_waits_for(2, at.path()) +
                                   " kill -9 $$; fi; " + wait));
    CHECK(end.is_signal);
    CHECK(end.number == SIGKILL);
  }
  for (const auto* rank : {"0", "1"})
    if (const auto pid = text_of(at.path() / rank); !pid.empty())
      CHECK_FALSE(is_alive(pid));
}

TEST_CASE("SIGTERM goes to rank 0, and its orderly end ends the others") {
  const testing::scratch_directory at;
  const auto dir = at.path().string();
  const auto pid =
      launch_ranks(2, "trap 'echo $RANK >>" + dir + "/told; exit 0' TERM; echo $$ >" + dir +
                          "/$RANK; " + rank_0_waits_for(1, at.path()) +
                          "[ $RANK = 0 ] && kill -TERM $PPID; while :; do sleep 0.01; done");
  const auto end = end_of(pid);
  CHECK_FALSE(end.is_signal);
  CHECK(end.number == 0);
  CHECK(text_of(at.path() / "told") == "0\n1\n");
}

TEST_CASE("a rank that exits early ends the group as a failure") {
  const auto end = end_of(launch_ranks(2, "[ $RANK = 1 ] && exit 0; exec tail -f /dev/null"));
  CHECK_FALSE(end.is_signal);
  CHECK(end.number == exit_failed);
}

TEST_CASE("no rank outlives its launcher") {
  const testing::scratch_directory at;
  int held[2];
  REQUIRE(pipe(held) == 0); // the ranks hold its end for as long as they live
  const auto pid = launch_ranks(2, "echo $$ >" + at.path().string() + "/$RANK; " +
                                       rank_0_waits_for(1, at.path()) +
                                       "[ $RANK = 0 ] && kill -9 $PPID; exec tail -f /dev/null");
  close(held[1]);
  CHECK(end_of(pid).is_signal);
  char none = 0;
  CHECK(read(held[0], &none, 1) == 0);
  close(held[0]);
}

TEST_CASE("an invalid program is a permanent failure") {
  const auto pid = fork();
  if (pid == 0)
    _exit(run_group({2, "tp", "job", 1}, {"/no/such/program"}));
  CHECK(end_of(pid).number == exit_permanent);
}

TEST_CASE("[[workers]] sets the number of processes of each worker") {
  const auto read = [](const std::string& more) {
    return parse_worker("[[workers]]\nname = \"w\"\ncommand = [\"a\"]\n" + more, "x.toml");
  };
  const auto group = read("parallel_type = \"pptp\"\nparallel_level = 4\nomp_num_threads = 2");
  REQUIRE_MESSAGE(group, group.error().message);
  CHECK(group->parallel == parallel_type::pptp);
  CHECK(group->parallel_level == 4);
  CHECK(group->omp_num_threads == 2);
  CHECK_FALSE(read("")->is_group());
  const auto wrong = [&](const std::string& more) { return read(more).error().param; };
  CHECK(wrong("parallel_type = \"dp\"\nparallel_level = 2") == "workers[0].parallel_type");
  CHECK(wrong("parallel_level = 2") == "workers[0].parallel_type");
  CHECK(wrong("parallel_type = \"tp\"") == "workers[0].parallel_level");
  CHECK(wrong("parallel_type = \"tp\"\nparallel_level = 65") == "workers[0].parallel_level");
  CHECK(wrong("omp_num_threads = 0") == "workers[0].omp_num_threads");
  const std::string tp = "parallel_type = \"tp\"\nparallel_level = 2\n";
  CHECK(read(tp)->device_ids == std::nullopt);
  CHECK(read(tp + "device_ids = [4, 5]")->device_ids == std::vector<std::int32_t>{4, 5});
  CHECK(read(tp + "device_ids = []")->device_ids == std::vector<std::int32_t>());
  for (const auto* ids : {"[0]", "[0, -1]", "[0, 1025]", "[\"a\", 1]", "0"})
    CHECK(wrong(tp + "device_ids = " + ids) == "workers[0].device_ids");
}
