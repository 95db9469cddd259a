#include "cluster/roles/process.hpp"

#include "actors/supervision/restart.hpp"
#include "cluster/bus/bus_zmq.hpp"
#include "cluster/bus/pinned_actors.hpp"
#include "cluster/files/open_files.hpp"
#include "cluster/files/publish_latest.hpp"
#include "cluster/roles/roles.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds link_tick_interval{50};
constexpr std::chrono::milliseconds actor_tick_interval{100}; // each wakes threads beside a step
constexpr std::chrono::seconds keys_interval{1};              // between looks at the key files
// Bounds the messages per scheduling of an actor. Measured without it: two actors that send to
// themselves starve a third.
constexpr std::size_t messages_per_round = 64;

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT, SIGHUP})
    sigaddset(&set, number);
  return set;
}

// CAF's default scheduler costs 158 µs more per round trip than this one.
caf::actor_system_config caf_options(std::uint32_t threads) {
  caf::actor_system_config options;
  options.set("scheduler.policy", caf::atom("sharing"));
  options.set("scheduler.max-threads", std::size_t{threads});
  options.set("scheduler.max-throughput", messages_per_round);
  return options;
}

// Schemas are extensible, but both ends of a pipeline must interpret a message alike.
result<void> admit(const hello& peer) {
  if (peer.role == role::client || peer.build == build_version())
    return {};
  return fail(errc::version_mismatch, "{} is build {}, we are {}", peer.name, peer.build,
              build_version());
}

} // namespace

void block_signals() {
  auto set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int wait_for_end(std::chrono::milliseconds patience) {
  const auto set = ending_signals();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timespec time{seconds.count(), std::chrono::nanoseconds(patience - seconds).count()};
  const int number = sigtimedwait(&set, nullptr, &time);
  return number == SIGTERM || number == SIGINT ? number : 0;
}

std::uint64_t wall_micros() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::uint64_t now_micros() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

struct process::parts {
  identity who;
  addresses where;
  caf::actor_system_config options;
  std::unique_ptr<bus_zmq> wire;
  std::unique_ptr<message_router> links;
  // Declared after what actors send through, so destroyed first. A running step still sends its
  // result then, and the system waits for it.
  caf::actor_system system;
  pinned_actors pinned{system, messages_per_round};
  std::vector<caf::actor> owned; // this and the rest may hold actors: gone before the system
  std::vector<std::function<void()>> ticks;
  std::vector<std::function<void(const hello&)>> ups;
  std::vector<std::function<void(process_id, incarnation_id, const std::string&)>> downs;
  std::thread ticker;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  int end_signal = 0; // the pending signal, until wait() returns it
  std::function<void(const key_pair&)> on_key;
  std::string recorded_key; // the one with which we listen
  status current;
  std::uint64_t reports = 0; // counts changes of `current`

  parts(identity w, addresses a, std::uint32_t threads)
      : who(std::move(w)), where(std::move(a)), options(caf_options(threads)), system(options) {
    current = {.process = who.process,
               .incarnation = who.incarnation,
               .role = who.as,
               .name = who.name,
               .phase = phase::starting,
               .reason = {},
               .pid = getpid(),
               .restarts = 0,
               .progress = 0};
  }

  // Called by reporting threads and when the supervisor's link comes up, often concurrently.
  void send_status() {
    publish_latest(
        [this] {
          std::lock_guard lock(mutex);
          return std::pair(reports, current);
        },
        [this](status s) {
          links->send(who.supervisor, actors::well_known::supervisor, std::move(s));
        });
  }

  // Applies the current trusted keys and this machine's own key.
  void follow_keys() {
    where.refresh();
    if (who.as == role::client || !where.keys().is_set())
      return;
    if (const auto changed = where.changed_key(wire->key_in_use())) {
      wire->use_key(*changed);
      if (on_key)
        on_key(*changed);
    }
    if (auto in_use = wire->key_in_use(); in_use != recorded_key) {
      links->listen_at(split_key(links->self().endpoint).address + "#" + in_use);
      where.record_key(who.name, in_use);
      recorded_key = std::move(in_use);
    }
  }

  void tick_loop() {
    std::unique_lock lock(mutex);
    auto due = std::chrono::steady_clock::now();
    auto keys_due = due;
    while (!wake.wait_for(lock, link_tick_interval, [this] { return stopping; })) {
      lock.unlock();
      const auto now = std::chrono::steady_clock::now();
      links->tick(now);
      if (now >= due) {
        due = now + actor_tick_interval;
        for (auto& tick : ticks)
          tick();
      }
      if (now >= keys_due) {
        keys_due = now + keys_interval;
        follow_keys();
      }
      lock.lock();
    }
  }
};

process::process(std::unique_ptr<parts> p) : parts_(std::move(p)) {}

result<std::unique_ptr<process>> process::start(identity who, const addresses& where,
                                                std::uint32_t actor_threads) {
  use_all_open_files();
  auto p = std::make_unique<parts>(std::move(who), where, actor_threads);
  bus_zmq_options wire;
  wire.curve = where.keys();
  if (auto own = where.changed_key(wire.curve.own.public_key)) // changes while a copy sleeps
    wire.curve.own = std::move(*own);
  p->wire = std::make_unique<bus_zmq>(std::move(wire));
  auto bound = p->wire->bind(p->who.endpoint);
  if (!bound)
    return bound.error();
  hello self{.process = p->who.process,
             .incarnation = p->who.incarnation,
             .role = p->who.as,
             .name = p->who.name,
             .endpoint = *bound,
             .build = std::string(build_version()),
             .pid = getpid()};
  message_router_options options;
  options.admit = admit;
  p->links = std::make_unique<message_router>(*p->wire, self, options);
  return std::unique_ptr<process>(new process(std::move(p)));
}

process::~process() {
  {
    std::lock_guard lock(parts_->mutex);
    parts_->stopping = true;
  }
  parts_->wake.notify_all();
  if (parts_->ticker.joinable())
    parts_->ticker.join();
  parts_->links->stop();
  for (auto a = parts_->owned.rbegin(); a != parts_->owned.rend(); ++a)
    caf::anon_send_exit(*a, caf::exit_reason::user_shutdown);
  parts_->owned.clear();
}

caf::actor_system& process::system() {
  return parts_->system;
}
message_router& process::links() {
  return *parts_->links;
}
const identity& process::self() const {
  return parts_->who;
}
// An actor that ends by itself has failed. The links would stay up, so the process must end too.
void process::guard(const caf::actor& actor) {
  caf::actor_cast<caf::abstract_actor*>(actor)->attach_functor([](const caf::error& why) {
    if (!why || why == caf::exit_reason::user_shutdown)
      return;
    spdlog::critical("an actor of this process has ended: the process ends as well");
    spdlog::shutdown();
    _exit(exit_software);
  });
}
void process::own(caf::actor actor) {
  guard(actor);
  parts_->owned.push_back(std::move(actor));
}
void process::pin(const caf::actor& actor) {
  parts_->pinned.add(actor);
}
void process::on_tick(std::function<void()> tick) {
  parts_->ticks.push_back(std::move(tick));
}

void process::on_key(std::function<void(const key_pair&)> changed) {
  parts_->on_key = std::move(changed);
}

void process::report(phase p, std::string reason, double progress) {
  {
    std::lock_guard lock(parts_->mutex);
    parts_->current.phase = p;
    parts_->current.reason = std::move(reason);
    parts_->current.progress = progress;
    ++parts_->reports;
  }
  if (parts_->who.supervisor)
    parts_->send_status();
}

void process::on_peer(std::function<void(const hello&)> up,
                      std::function<void(process_id, incarnation_id, const std::string&)> down) {
  parts_->ups.push_back(std::move(up));
  parts_->downs.push_back(std::move(down));
}

void process::begin() {
  auto& p = *parts_;
  p.links->on_peer_up([&p](const hello& h) {
    spdlog::info("{} is up (pid {}, incarnation {})", h.name, h.pid, h.incarnation.value);
    if (h.process == p.who.supervisor)
      p.send_status();
    for (auto& up : p.ups)
      up(h);
  });
  p.links->on_peer_down([&p](process_id peer, incarnation_id incarnation, const std::string& why) {
    spdlog::info("process {} is down (incarnation {}): {}", peer.value, incarnation.value, why);
    for (auto& down : p.downs)
      down(peer, incarnation, why);
  });
  p.links->on_round_over([&p] { return p.pinned.run(); });
  p.links->start();
  if (p.who.supervisor)
    if (auto linked = p.links->connect(p.who.supervisor, p.who.supervisor_endpoint); !linked)
      spdlog::error("cannot connect to the supervisor: {}", linked.error().message);
  p.ticker = std::thread([&p] { p.tick_loop(); });
}

int process::wait() {
  auto& p = *parts_;
  if (p.end_signal != 0)
    return p.end_signal;
  for (;;) {
    if (const int number = wait_for_end(std::chrono::milliseconds(100)); number != 0)
      return number;
    std::lock_guard lock(p.mutex);
    if (p.stopping)
      return 0;
  }
}

bool process::wait_briefly() {
  parts_->end_signal = wait_for_end(std::chrono::milliseconds(20));
  return parts_->end_signal != 0;
}

void process::wait_stopped() {
  auto& p = *parts_;
  const auto until = std::chrono::steady_clock::now() + stop_patience;
  std::unique_lock lock(p.mutex);
  if (!p.wake.wait_until(lock, until, [&] { return p.stopping; }))
    spdlog::error("what this process supervises has not ended within {} s", stop_patience.count());
}

void process::stop() {
  std::lock_guard lock(parts_->mutex);
  parts_->stopping = true;
  parts_->wake.notify_all();
}

} // namespace baton::cluster
