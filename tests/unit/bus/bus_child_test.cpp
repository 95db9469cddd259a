// A link whose other process is killed or stopped.
#include "tests/support/scratch_directory.hpp"
#include "tests/unit/bus/bus_processes.hpp"
#include "tests/unit/bus/live_process.hpp"

#include <doctest/doctest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <csignal>

using namespace baton;
using namespace baton::testing;
using namespace std::chrono_literals;
using clk = std::chrono::steady_clock;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr auto notice_max = 1000ms;
#else
constexpr auto notice_max = 100ms;
#endif

class child {
public:
  child(std::uint64_t incarnation, const std::string& endpoint, const std::string& head_endpoint) {
    std::vector<std::string> words = {BATON_BUS_PEER, "2", std::to_string(incarnation),
                                      endpoint,       "1", head_endpoint};
    std::vector<char*> argv;
    for (auto& w : words)
      argv.push_back(w.data());
    argv.push_back(nullptr);
    REQUIRE(::posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) == 0);
  }
  ~child() { end(); }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  void signal(int number) const { REQUIRE(::kill(pid_, number) == 0); }
  void end() {
    if (pid_ <= 0)
      return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

private:
  pid_t pid_ = 0;
};

std::string endpoint_of(const scratch_directory& dir, const std::string& name, bool tcp) {
  return tcp ? "tcp://127.0.0.1:*" : "ipc://" + (dir.path() / name).string();
}

} // namespace

TEST_CASE("a peer killed by SIGKILL is down within 100 ms, and its next incarnation is up") {
  scratch_directory dir;
  for (bool tcp : {false, true}) {
    CAPTURE(tcp);
    live_process h(head_process, incarnation_id{1}, endpoint_of(dir, "head", tcp));
    // The best of three: a busy machine may delay this process itself.
    auto noticed = std::chrono::nanoseconds::max();
    for (int incarnation = 1; incarnation <= 3; ++incarnation) {
      child peer(static_cast<std::uint64_t>(incarnation),
                 endpoint_of(dir, fmt::format("peer-{}", incarnation), tcp), h.endpoint());
      REQUIRE(h.wait_up(incarnation));
      const auto killed = clk::now();
      peer.signal(SIGKILL);
      REQUIRE(h.wait([&] { return h.downs == incarnation; }));
      noticed = std::min<std::chrono::nanoseconds>(noticed, clk::now() - killed);
    }
    CHECK(noticed < notice_max);
    MESSAGE("noticed after ", std::chrono::duration<double, std::milli>(noticed).count(), " ms");
    child last(4, endpoint_of(dir, "peer-4", tcp), h.endpoint());
    REQUIRE(h.wait_up(4));
    CHECK(h.wait([&] { return h.last_up.incarnation == incarnation_id{4}; }, 0ms));
    h.links->post(process_id{2}, echo_box, message(sampled{}), reply_box);
    CHECK(h.wait([&] { return h.replies == 1; }));
  }
}

TEST_CASE("a stopped peer is down by heartbeats, and up again when it continues") {
  scratch_directory dir;
  live_options quick;
  quick.links.link.heartbeat_interval = 100ms;
  quick.links.link.heartbeat_timeout = 1500ms;
  quick.bus.heartbeat_timeout = 60'000ms; // the transport must not detect it first
  live_process h(head_process, incarnation_id{1}, endpoint_of(dir, "head", false), quick);
  child peer(1, endpoint_of(dir, "peer", false), h.endpoint());
  REQUIRE(h.wait_up());
  peer.signal(SIGSTOP);
  REQUIRE(h.wait([&] { return h.downs == 1; }));
  {
    std::lock_guard lock(h.mutex);
    CAPTURE(h.last_why);
    CHECK(h.last_why.find("silent") != std::string::npos);
  }
  CHECK(h.wait([&] { return h.last_down == incarnation_id{1}; }, 0ms));
  peer.signal(SIGCONT);
  REQUIRE(h.wait_up(2));
  h.links->post(process_id{2}, echo_box, message(sampled{}), reply_box);
  CHECK(h.wait([&] { return h.replies == 1; }));
}
