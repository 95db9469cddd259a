// Round trip of one message to another process: router, codec and an actor on each side, on the bus
// thread as in head and gateway. Alternates with the same bytes through a raw DEALER and ROUTER.
// Prints a table; with --json one object per line. Run by people and by the benchmark page, never
// by the tests.
#include "cluster/bus/bus_zmq.hpp"
#include "cluster/bus/proxy.hpp"
#include "tests/bench/programs/median.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.hpp>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

using namespace baton;
using clk = std::chrono::steady_clock;

namespace {

constexpr process_id here{1};
constexpr process_id there{2};
constexpr std::size_t sizes[] = {64, 4096, 65'536};
// Set when an actor's message woke one more thread on each side, which costs up to 22 µs on a
// virtual machine; the rest is for the codec. The two copies of each side (into the packet, and out
// of ZeroMQ's buffer for alignment) may take 0.5 µs per KiB.
constexpr double added_bar_us(std::size_t size_bytes) {
  return 60 + 0.5 * static_cast<double>(size_bytes) / 1024;
}

struct options {
  int rounds = 7;
  int messages = 2000;
  bool json = false;
  bool pin = false;
};

constexpr std::string_view usage = "bus_bench [--rounds N] [--messages N] [--pin] [--json]\n";

void pin_to(unsigned core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core % std::max(1u, std::thread::hardware_concurrency()), &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

micro_batch batch_of(std::size_t size_bytes) {
  micro_batch m;
  m.batch = {1};
  m.epoch = {1};
  m.tokens = {1};
  auto rows = std::make_shared<std::vector<float>>(size_bytes / sizeof(float), 1.0f);
  m.activations = {rows, reinterpret_cast<const std::byte*>(rows->data()), size_bytes};
  return m;
}

double microseconds(clk::time_point since) {
  return std::chrono::duration<double, std::micro>(clk::now() - since).count();
}

// -- Raw ZeroMQ --

void raw_echo(const std::string& endpoint_file) {
  zmq::context_t context(1);
  zmq::socket_t router(context, zmq::socket_type::router);
  router.bind(endpoint_file);
  for (;;) {
    zmq::message_t id;
    zmq::message_t body;
    static_cast<void>(router.recv(id));
    static_cast<void>(router.recv(body));
    router.send(id, zmq::send_flags::sndmore);
    router.send(body, zmq::send_flags::none);
  }
}

class raw_pinger {
public:
  explicit raw_pinger(const std::string& endpoint) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect(endpoint);
  }
  std::vector<double> run(std::size_t size_bytes, int count) {
    std::vector<double> samples;
    std::vector<std::byte> bytes(size_bytes);
    for (int i = 0; i < count; ++i) {
      const auto start = clk::now();
      socket_.send(zmq::buffer(bytes), zmq::send_flags::none);
      zmq::message_t back;
      static_cast<void>(socket_.recv(back));
      samples.push_back(microseconds(start));
    }
    return samples;
  }

private:
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
};

// -- Baton: the process as cluster/roles/process.cpp makes it --

struct system_config : caf::actor_system_config {
  system_config() {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", std::size_t{2});
    set("scheduler.max-throughput", std::size_t{64});
  }
};

struct process {
  system_config config;
  caf::actor_system system{config};
  cluster::pinned_actors pinned{system, 64};
  cluster::bus_zmq bus{{}};
  std::unique_ptr<cluster::message_router> links;
  std::promise<void> linked;
  bool was_linked = false; // a link may drop and reconnect

  process(process_id self, const std::string& endpoint) {
    auto bound = bus.bind(endpoint);
    ENSURE(bound, "cannot listen on {}", endpoint);
    hello h;
    h.process = self;
    h.incarnation = incarnation_id{1};
    h.endpoint = *bound;
    links = std::make_unique<cluster::message_router>(bus, h, cluster::message_router_options{});
    links->on_peer_up([this](const hello&) {
      if (!std::exchange(was_linked, true))
        linked.set_value();
    });
    links->on_round_over([this] { return pinned.run(); });
  }
  void start(const actors::stage_actor& actor) {
    pinned.add(actor);
    cluster::deliver_to(*links, actors::well_known::stage, actor);
    links->start();
  }
  // All handles that need `links` are destroyed before.
  void stop() { links->stop(); }
};

actors::stage_actor::behavior_type echo(actors::stage_actor::pointer, actors::stage_actor back) {
  return {
      [](const open_epoch&) {},
      [back](micro_batch& m) { caf::anon_send(back, std::move(m)); },
      [](const sampled&) {},
      [](const actors::peer_up&) {},
      [](const actors::peer_down&) {},
  };
}

struct pinger_state {
  micro_batch batch;
  std::size_t count = 0;
  clk::time_point start;
  std::vector<double> samples;
};

struct order {
  std::size_t size_bytes = 0;
  int count = 0;
  std::promise<std::vector<double>> done;
};

// open_epoch begins a run; each returning micro_batch sends the next.
actors::stage_actor::behavior_type pinger(actors::stage_actor::stateful_pointer<pinger_state> self,
                                          actors::stage_actor to, order* work) {
  auto next = [self, to] {
    self->state.start = clk::now();
    caf::anon_send(to, self->state.batch);
  };
  return {
      [=](const open_epoch&) {
        self->state = {batch_of(work->size_bytes), static_cast<std::size_t>(work->count), {}, {}};
        next();
      },
      [=](const micro_batch&) {
        auto& s = self->state;
        s.samples.push_back(microseconds(s.start));
        if (s.samples.size() == s.count)
          work->done.set_value(std::move(s.samples));
        else
          next();
      },
      [](const sampled&) {},
      [](const actors::peer_up&) {},
      [](const actors::peer_down&) {},
  };
}

void baton_echo(const std::string& endpoint, const std::string& peer_endpoint) {
  process self(there, endpoint);
  auto back = cluster::make_proxy<actors::stage_actor>(self.system, *self.links, here,
                                                       actors::well_known::stage);
  self.start(self.system.spawn(echo, back));
  ENSURE(self.links->connect(here, peer_endpoint), "cannot connect");
  for (;;)
    ::pause();
}

// -- The run --

class child {
public:
  child(const std::string& role, const std::string& endpoint, const std::string& peer, bool pin) {
    std::vector<std::string> words = {"bus_bench", role, endpoint, peer, pin ? "1" : "0"};
    std::vector<char*> argv;
    for (auto& w : words)
      argv.push_back(w.data());
    argv.push_back(nullptr);
    const int rc = ::posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ);
    ENSURE(rc == 0, "cannot start a child: {}", std::strerror(rc));
  }
  ~child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

private:
  pid_t pid_ = 0;
};

// `bar`: the upper limit; 0: none.
void report(const options& o, const std::string& row, std::vector<double> values,
            std::string_view unit, double bar) {
  std::sort(values.begin(), values.end());
  const double value = values[values.size() / 2];
  const bool ok = bar == 0 || value <= bar;
  if (o.json)
    fmt::print("{{\"row\":\"{}\",\"value\":{:.2f},\"unit\":\"{}\",\"bar\":{:.2f},\"ok\":{},"
               "\"min\":{:.2f},\"max\":{:.2f},\"rounds\":{}}}\n",
               row, value, unit, bar, ok, values.front(), values.back(), values.size());
  else
    fmt::print("{:<34} {:>8.2f} {:<3} min {:>8.2f}  max {:>8.2f}{}\n", row, value, unit,
               values.front(), values.back(),
               bar == 0 ? std::string()
                        : fmt::format("  bar {:.2f} {}", bar, ok ? "ok" : "MISSED"));
  std::fflush(stdout);
}

void measure(const options& o, const std::string& directory) {
  if (o.pin)
    pin_to(0);
  const auto at = [&](const char* name) { return "ipc://" + directory + "/" + name; };
  process self(here, at("here"));
  child raw_child("--raw-echo", at("raw"), "", o.pin);
  child baton_child("--baton-echo", at("there"), at("here"), o.pin);
  raw_pinger raw(at("raw"));
  order work;
  auto to = cluster::make_proxy<actors::stage_actor>(self.system, *self.links, there,
                                                     actors::well_known::stage);
  auto ping = self.system.spawn(pinger, to, &work);
  self.start(ping);
  self.linked.get_future().wait();
  auto baton_run = [&](std::size_t size_bytes, int count) {
    work = {size_bytes, count, {}};
    auto done = work.done.get_future();
    caf::anon_send(ping, open_epoch{});
    return done.get();
  };
  for (auto size : sizes) {
    raw.run(size, o.messages / 10 + 1);
    baton_run(size, o.messages / 10 + 1);
    std::vector<double> raw_medians, baton_medians, added;
    for (int round = 0; round < o.rounds; ++round) {
      raw_medians.push_back(median(raw.run(size, o.messages)));
      baton_medians.push_back(median(baton_run(size, o.messages)));
      added.push_back(baton_medians.back() - raw_medians.back());
    }
    report(o, fmt::format("round trip {} B, raw ZeroMQ", size), raw_medians, "us", 0);
    report(o, fmt::format("round trip {} B, baton", size), baton_medians, "us", 0);
    report(o, fmt::format("round trip {} B, added", size), added, "us", added_bar_us(size));
  }
  self.stop();
  caf::anon_send_exit(ping, caf::exit_reason::user_shutdown);
}

bool read(options& o, int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--json")
      o.json = true;
    else if (word == "--pin")
      o.pin = true;
    else if (word == "--rounds" && i + 1 < count)
      o.rounds = std::atoi(words[++i]);
    else if (word == "--messages" && i + 1 < count)
      o.messages = std::atoi(words[++i]);
    else
      return false;
  }
  return o.rounds >= 1 && o.rounds <= 1000 && o.messages >= 1 && o.messages <= 10'000'000;
}

} // namespace

int main(int count, char** words) {
  spdlog::set_level(spdlog::level::warn);
  if (count == 5 && std::string_view(words[1]).ends_with("-echo")) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (std::string_view(words[4]) == "1")
      pin_to(1);
    if (std::string_view(words[1]) == "--raw-echo")
      raw_echo(words[2]);
    else
      baton_echo(words[2], words[3]);
  }
  options o;
  if (!read(o, count, words)) {
    fmt::print(stderr, "{}", usage);
    return 2;
  }
  std::string directory = "/tmp/bus_bench-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) {
    fmt::print(stderr, "bus_bench: no directory at {}\n", directory);
    return 1;
  }
  measure(o, directory);
  for (const char* name : {"here", "there", "raw"})
    ::unlink((directory + "/" + name).c_str());
  ::rmdir(directory.c_str());
}
