// Refusal of clients whose requests crash the gateway: real processes that end by a signal.
#include "gateway/auth/crash_record.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

constexpr crash_client alice{"alice", "127.0.0.1:5000"};
constexpr crash_client bob{"bob", "127.0.0.1:5001"};
const auto noon = crash_record::clock::time_point(1'800'000'000s);

// The start of a gateway process: without the test runner's handlers.
void begin_process() {
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    std::signal(number, SIG_DFL);
  }
  crash_record::mark_fatal_signals();
}

// A gateway that records `client` and does `work`. Returns the signal that ended it; 0: none.
int run_gateway(const std::filesystem::path& file, const crash_client& client,
                const std::function<void()>& work, crash_record::clock::time_point now = noon) {
  const auto child = fork();
  if (child == 0) {
    begin_process();
    auto record = crash_record::open(file, now);
    if (!record) {
      _exit(1);
    }
    {
      const crash_record::handling handling(record->get(), client);
      work();
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int endless(int depth) {
  volatile char frame[4096] = {};
  return frame[0] + (depth > 0 ? endless(depth + 1) : 0);
}

std::vector<crash_suspect> found_after(const std::filesystem::path& file,
                                       crash_record::clock::time_point now = noon) {
  const auto record = crash_record::open(file, now);
  REQUIRE(record);
  return (*record)->found();
}

std::chrono::seconds refused(const std::filesystem::path& file, const crash_client& client,
                             crash_record::clock::time_point now) {
  const auto record = crash_record::open(file, now);
  REQUIRE(record);
  return (*record)->refused_for(client, now);
}

} // namespace

TEST_CASE("a request that crashes the gateway is counted against its client") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "gateway.crashes";
  int number = 0;
  SUBCASE("abort") {
    number = run_gateway(file, alice, [] { std::abort(); });
    CHECK(number == SIGABRT);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  SUBCASE("a null pointer") { // a sanitizer has its own handler
    number = run_gateway(file, alice, [] {
      volatile int* nowhere = nullptr;
      *nowhere = 1;
    });
    CHECK(number == SIGSEGV);
  }
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  SUBCASE("a stack that overflows") {
    number = run_gateway(file, alice, [] { static_cast<void>(endless(1)); });
    CHECK(number == SIGSEGV);
  }
#endif
  SUBCASE("a signal from elsewhere") {
    number = run_gateway(file, alice, [] { kill(getpid(), SIGFPE); });
    CHECK(number == SIGFPE);
  }
  const auto found = found_after(file);
  REQUIRE(found.size() == 1);
  CHECK(found[0].client == "key alice");
  CHECK(found[0].crashes == 1);
  CHECK(found[0].refused_for == 0s); // the first one may be an accident
  CHECK(found_after(file).empty());  // it is counted once
}

TEST_CASE("an end that no request caused is counted against no client") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "gateway.crashes";
  CHECK(run_gateway(file, alice, [] { kill(getpid(), SIGKILL); }) == SIGKILL);
  CHECK(found_after(file).empty());
  CHECK(run_gateway(file, alice, [] {}) == 0);
  CHECK(found_after(file).empty());
}

TEST_CASE("of several threads the one that crashed is counted") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "gateway.crashes";
  const auto child = fork();
  if (child == 0) {
    begin_process();
    const auto record = *crash_record::open(file, noon);
    std::atomic<int> waiting = 0;
    std::vector<std::thread> others;
    for (const auto client : {bob, crash_client{"", "10.0.0.7:5001"}}) {
      others.emplace_back([&, client] {
        const crash_record::handling handling(record.get(), client);
        ++waiting;
        pause();
      });
    }
    while (waiting < 2) {
      std::this_thread::yield();
    }
    const crash_record::handling handling(record.get(), alice);
    std::abort();
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  const auto found = found_after(file);
  REQUIRE(found.size() == 1);
  CHECK(found[0].client == "key alice");
}

TEST_CASE(
    "a client that crashes it again is refused, twice as long each time, and forgotten later") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "gateway.crashes";
  auto now = noon;
  const auto crash = [&] {
    run_gateway(
        file, alice, [] { std::abort(); }, now);
  };
  crash();
  CHECK(refused(file, alice, now) == 0s);
  crash();
  CHECK(refused(file, alice, now) == 60s);
  CHECK(refused(file, bob, now) == 0s);
  CHECK(refused(file, alice, now + 59s) == 1s);
  CHECK(refused(file, alice, now + 60s) == 0s);
  CHECK(refused(file, alice, now - 10s) == 60s); // the clock was set back
  now += 60s;
  crash();
  CHECK(refused(file, alice, now) == 120s);
  for (int i = 0; i < 40; ++i) {
    crash();
  }
  CHECK(refused(file, alice, now) == crash_record::refusal_most);
  now += crash_record::forget_after + 1s;
  CHECK(refused(file, alice, now) == 0s);
  crash();
  CHECK(refused(file, alice, now) == 0s);
}

TEST_CASE("the table of suspects is bounded: the oldest entry is removed") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "gateway.crashes";
  const auto crash = [&](const std::string& client, auto when) {
    run_gateway(
        file, {client, ""}, [] { std::abort(); }, when);
    REQUIRE(found_after(file, when).size() == 1);
  };
  crash("first", noon);
  crash("first", noon);
  CHECK(refused(file, {"first", ""}, noon) == 60s);
  for (int i = 0; i < 256; ++i) {
    crash("other " + std::to_string(i), noon + 1s);
  }
  CHECK(refused(file, {"first", ""}, noon + 1s) == 0s);
}

TEST_CASE("a file of another version is reset; an unusable file is an error") {
  const testing::scratch_directory dir;
  const auto file = dir.path() / "gateway.crashes";
  std::ofstream(file) << std::string(4096, 'x');
  CHECK(found_after(file).empty());
  const std::string long_name(500, 'n');
  run_gateway(file, {long_name, ""}, [] { std::abort(); });
  CHECK(found_after(file).size() == 1); // a long name is truncated
  CHECK(crash_record::open(dir.path() / "nowhere" / "file", noon).error().code == errc::io_failed);
}
