// Goal: ranks in separate processes sum as threads do. A rank that is killed or stopped in the
// middle of a sum delays the others for a bounded time. One that continues in a closed epoch harms
// no other rank. Method: forked children that report by exit status.
#include "tests/support/deadline_scale.hpp"
#include "tests/unit/collective/groups.hpp"

#include <sys/wait.h>

#include <csignal>
#include <functional>

using namespace baton;
using namespace baton::testing;
using collective::group_memory;
using collective::shared_collective;
using clk = std::chrono::steady_clock;

namespace {

const std::chrono::milliseconds ample_for_processes = scaled(std::chrono::seconds(60));

// A rank in its own process, with its own mapping of the file.
class child {
public:
  child(int fd, std::uint64_t epoch, std::uint32_t rank, std::uint32_t width,
        const std::function<bool(shared_collective&)>& work) {
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0)
      ::_exit(is_well(fd, epoch, rank, width, work) ? 0 : 1);
  }
  ~child() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  void signal(int number) const { ::kill(process_, number); }
  // Waits until the process is stopped.
  void stop() const {
    int status = 0;
    signal(SIGSTOP);
    REQUIRE(::waitpid(process_, &status, WUNTRACED) == process_);
    REQUIRE(WIFSTOPPED(status));
  }
  int exit_status() {
    int status = 0;
    ::waitpid(std::exchange(process_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  static bool is_well(int fd, std::uint64_t epoch, std::uint32_t rank, std::uint32_t width,
                      const std::function<bool(shared_collective&)>& work) {
    auto memory = group_memory::map(fd);
    if (!memory)
      return false;
    auto area = memory->area_of({epoch});
    if (!area)
      return false;
    shared_collective own(rank, width, {ample_for_processes});
    return own.enter(*std::move(area)) && work(own);
  }
  pid_t process_ = 0;
};

bool sums_well(shared_collective& own, std::size_t size, std::uint32_t calls) {
  for (std::uint32_t call = 0; call < calls; ++call) {
    auto values = values_of(own.rank(), size, call);
    if (!own.all_reduce(values) || wrong_sums(values, own.width(), call) != 0)
      return false;
  }
  return true;
}

bool sums_until_it_fails(shared_collective& own, std::size_t size) {
  std::vector<float> values(size, 1);
  while (own.all_reduce(values))
    std::fill(values.begin(), values.end(), 1.0F);
  return true;
}

// Sums until a call fails.
result<void> first_failure(shared_collective& own, std::size_t size) {
  std::vector<float> values(size, 1);
  for (;;) {
    auto summed = own.all_reduce(values);
    if (!summed)
      return summed;
    std::fill(values.begin(), values.end(), 1.0F);
  }
}

} // namespace

TEST_CASE("processes sum as threads do") {
  for (const auto& [size, calls] : {std::pair(std::size_t{576}, 5000U), {70'001, 50U}}) {
    group_file group(3);
    const auto area = group.open(1);
    const auto work = [size = size, calls = calls](shared_collective& own) {
      return sums_well(own, size, calls);
    };
    child first(group.fd, 1, 1, 3, work), second(group.fd, 1, 2, 3, work);
    shared_collective own(0, 3, {ample_for_processes});
    REQUIRE(own.enter(area));
    CHECK(work(own));
    CHECK(first.exit_status() == 0);
    CHECK(second.exit_status() == 0);
  }
}

TEST_CASE("when a rank is killed in the middle of its sums, the others notice in time") {
  for (const std::size_t size : {std::size_t{64}, std::size_t{300'000}})
    for (int after = 1; after < 6; ++after) {
      group_file group(3);
      const auto area = group.open(1);
      const auto work = [&](shared_collective& own) { return sums_until_it_fails(own, size); };
      child survivor(group.fd, 1, 1, 3, work), victim(group.fd, 1, 2, 3, work);
      shared_collective own(0, 3, {ample_for_processes});
      REQUIRE(own.enter(area));
      std::vector<float> values(size, 1);
      for (int call = 0; call < 10 * after; ++call)
        REQUIRE(own.all_reduce(values));
      victim.signal(SIGKILL);
      const auto begin = clk::now();
      const auto failed = first_failure(own, size);
      CHECK(failed.error().code == errc::link_down);
      CHECK(failed.error().message.find("rank 2") != std::string::npos);
      CHECK(survivor.exit_status() == 0);
      CHECK(clk::now() - begin < ample_for_processes / 4); // far below its deadline
    }
}

TEST_CASE("a rank that is stopped costs the others a deadline") {
  group_file group(2);
  const auto area = group.open(1);
  child frozen(group.fd, 1, 1, 2,
               [](shared_collective& own) { return sums_until_it_fails(own, 64); });
  shared_collective own(0, 2, {std::chrono::milliseconds(100)});
  REQUIRE(own.enter(area));
  frozen.stop();
  const auto begin = clk::now();
  const auto failed = first_failure(own, 64);
  CHECK(failed.error().code == errc::deadline_exceeded);
  CHECK(clk::now() - begin >= std::chrono::milliseconds(100));
  CHECK(clk::now() - begin < scaled(std::chrono::seconds(20)));
}

TEST_CASE("a rank that continues in a closed epoch does not disturb the next one") {
  group_file group(2);
  const auto area = group.open(1);
  child zombie(group.fd, 1, 1, 2, [](shared_collective& own) {
    return first_failure(own, 300'000).error().code == errc::stale_epoch;
  });
  shared_collective own(0, 2, {ample_for_processes});
  REQUIRE(own.enter(area));
  std::vector<float> values(300'000, 1);
  for (int i = 0; i < 20; ++i)
    REQUIRE(own.all_reduce(values));
  zombie.stop(); // anywhere, also inside a copy into its slot
  const auto next = group.open(2);
  child fresh(group.fd, 2, 1, 2,
              [](shared_collective& rank) { return sums_well(rank, 576, 2000); });
  REQUIRE(own.enter(next));
  zombie.signal(SIGCONT);
  CHECK(sums_well(own, 576, 2000));
  CHECK(fresh.exit_status() == 0);
  CHECK(zombie.exit_status() == 0);
}

TEST_CASE("look() detects a process that has exited, without a call and without waiting") {
  group_file group(2);
  const auto area = group.open(1);
  child other(group.fd, 1, 1, 2, [](shared_collective& own) {
    return static_cast<bool>(own.agree(1)) && sums_until_it_fails(own, 8);
  });
  shared_collective own(0, 2, {ample_for_processes});
  REQUIRE(own.enter(area));
  REQUIRE(own.agree(1));
  CHECK(own.look());
  other.signal(SIGKILL);
  CHECK(other.exit_status() == 128 + SIGKILL);
  const auto gone = own.look();
  REQUIRE(!gone);
  CHECK(gone.error().code == errc::link_down);
  CHECK(own.is_broken());
  CHECK(!own.agree(2));
}
