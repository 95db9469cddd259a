#include "gateway/zmq/worker_server.hpp"

#include "gateway/state/request_guard.hpp"
#include "gateway/zmq/router_socket.hpp"
#include "schema/codec/codec.hpp"
#include "schema/limits.hpp"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace baton::gateway {
namespace {

using clock = std::chrono::steady_clock;

constexpr int frames_max = 1024; // each way, per worker: one batch at a time, pieces by credit
constexpr int worker_messages_per_poll = 256;
constexpr std::uint64_t window_bytes = 2 * limits::client_body_bytes_max; // fits a whole piece
constexpr std::chrono::milliseconds worker_poll_interval{250};
constexpr std::chrono::milliseconds heartbeat_interval{1'000};
constexpr std::chrono::milliseconds silence_max{5'000};

// Closes its file descriptor when destroyed.
class owned_fd {
public:
  explicit owned_fd(int fd) noexcept : fd_(fd) {}
  owned_fd(owned_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  owned_fd& operator=(owned_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~owned_fd() {
    if (fd_ >= 0)
      close(fd_);
  }
  int get() const noexcept { return fd_; }

private:
  int fd_;
};

owned_fd open_process(std::int32_t pid) {
  return owned_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

struct linked_worker {
  worker_incarnation instance;
  std::string routing_id;
  worker_pool_actor pool;
  owned_fd pidfd;
  clock::time_point last_seen;
  std::uint64_t sequence_in = 1; // the hello
  std::uint64_t sequence_out = 0;
  std::uint64_t arrived_bytes = 0;
  std::uint64_t credited_bytes = 0;
  std::uint64_t beats = 0;
  bool is_reported_silent = false;
};

} // namespace

struct worker_server::wall {
  std::shared_ptr<gateway_state> facts;
  pools_by_process pools;
  router_socket router;
  owned_fd bell{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::map<process_id, linked_worker> workers;
  std::mutex mutex;
  std::vector<std::pair<worker_incarnation, message>> outgoing;
  std::optional<pools_by_process> next_pools;
  std::atomic<bool> is_stopping{false};
  clock::time_point next_beat;
  std::thread thread;

  explicit wall(std::shared_ptr<gateway_state> b) : facts(std::move(b)) {
    ENSURE(bell.get() >= 0, "eventfd: {}", std::strerror(errno));
  }

  result<void> bind(const std::string& endpoint);
  void ring();
  void run();
  void loop();
  void wait();
  void receive_some();
  void lose_faulty(const std::vector<zmq::message_t>& parts, const error& why);
  void take(const std::string& id, const std::vector<zmq::message_t>& parts);
  void take(linked_worker& from, message m, std::size_t bytes);
  bool is_next(linked_worker& from, const envelope& head);
  void greet(const std::string& id, const hello& h);
  void refuse(const std::string& id, const hello& h, const error& why);
  linked_worker* known(const std::string& id, const envelope& head);
  void lose(process_id process, const std::string& how, bool has_ended);
  void give_credit(linked_worker& to, std::size_t bytes);
  void use_next_pools();
  void send_all();
  void beat(clock::time_point now);
  void send(linked_worker& to, const message& m);
};

result<void> worker_server::wall::bind(const std::string& endpoint) {
  auto taken = router.bind(endpoint, {frames_max, frames_max, limits::client_body_bytes_max});
  return taken ? result<void>() : taken.error();
}

void worker_server::wall::ring() {
  const std::uint64_t one = 1;
  if (write(bell.get(), &one, sizeof one) < 0) {
    // EAGAIN: signalled already.
  }
}

void worker_server::wall::send(linked_worker& to, const message& m) {
  envelope e;
  e.source = facts->config().self;
  e.source_incarnation = facts->config().incarnation;
  e.target = to.instance.process;
  e.target_incarnation = to.instance.incarnation;
  e.source_actor = actors::well_known::zmq_server;
  e.target_actor = actors::well_known::client;
  e.sequence = ++to.sequence_out;
  if (!router.send(to.routing_id, encode(e, m)))
    facts->metrics().dropped("worker_unreachable"); // its end, or its silence, follows
}

void worker_server::wall::refuse(const std::string& id, const hello& h, const error& why) {
  facts->metrics().refused("worker", why.code);
  router.refuse(facts->config(), id, h, why);
}

void worker_server::wall::use_next_pools() {
  const std::lock_guard lock(mutex);
  if (auto next = std::exchange(next_pools, {}))
    std::swap(pools, *next);
}

void worker_server::wall::greet(const std::string& id, const hello& h) {
  use_next_pools();
  const auto pool = pools.find(h.process);
  if (h.role != role::worker || pool == pools.end())
    return refuse(id, h, fail(errc::forbidden, "no worker is configured under this number"));
  const auto before = workers.find(h.process);
  if (before != workers.end() && before->second.instance.incarnation > h.incarnation)
    return refuse(id, h, fail(errc::stale_epoch, "a newer process of {} is connected", h.name));
  auto pidfd = open_process(h.pid);
  if (pidfd.get() < 0)
    return refuse(id, h, fail(errc::invalid_value, "process {}: {}", h.pid, std::strerror(errno)));
  workers.erase(h.process);
  const worker_incarnation instance{h.process, h.incarnation};
  auto& w = workers
                .emplace(h.process, linked_worker{.instance = instance,
                                                  .routing_id = id,
                                                  .pool = pool->second,
                                                  .pidfd = std::move(pidfd),
                                                  .last_seen = clock::now()})
                .first->second;
  hello_ack ack;
  ack.process = facts->config().self;
  ack.incarnation = facts->config().incarnation;
  ack.credit_bytes = window_bytes;
  send(w, ack);
  caf::anon_send(w.pool, worker_greeted{instance, h.load_micros});
}

linked_worker* worker_server::wall::known(const std::string& id, const envelope& head) {
  const auto w = workers.find(head.source);
  const bool is_known = w != workers.end() && w->second.routing_id == id &&
                        w->second.instance.incarnation == head.source_incarnation &&
                        head.target_incarnation == facts->config().incarnation;
  return is_known ? &w->second : nullptr;
}

void worker_server::wall::take(const std::string& id, const std::vector<zmq::message_t>& parts) {
  auto f = router_socket::packet_of(parts);
  const auto head = f ? decode_foreign_envelope(f->head) : f.error();
  if (!head || head->version != protocol_version) {
    facts->metrics().dropped("worker_bad_frame");
    return;
  }
  auto* worker = known(id, *head);
  if (name_of(head->kind) == "unknown") { // from a newer build, for a newer gateway
    facts->metrics().dropped("worker_unknown_kind");
    if (worker)
      (void)is_next(*worker, *head);
    return;
  }
  auto body = decode_body(*head, f->body, f->bulk);
  if (!body) {
    facts->metrics().dropped("worker_bad_frame");
    if (worker)
      lose(worker->instance.process,
           fmt::format("it sent an unreadable message: {}", body.error().message),
           /*has_ended=*/false);
  } else if (const auto* h = std::get_if<hello>(&*body)) {
    greet(id, *h);
  } else if (worker) {
    if (is_next(*worker, *head))
      take(*worker, *std::move(body), f->size_bytes());
  } else {
    facts->metrics().dropped("worker_stranger");
  }
}

// Drops a worker whose message is not the next in sequence.
bool worker_server::wall::is_next(linked_worker& from, const envelope& head) {
  if (head.sequence != from.sequence_in + 1) {
    lose(from.instance.process,
         fmt::format("its message {} arrived instead of {}", head.sequence, from.sequence_in + 1),
         /*has_ended=*/false);
    return false;
  }
  from.sequence_in = head.sequence;
  from.last_seen = clock::now();
  from.is_reported_silent = false;
  return true;
}

void worker_server::wall::take(linked_worker& from, message m, std::size_t bytes) {
  if (auto* piece = std::get_if<inferred>(&m)) {
    give_credit(from, bytes);
    caf::anon_send(from.pool, worker_replied{from.instance, std::move(*piece)});
  } else if (auto* counted = std::get_if<handler_metrics>(&m)) {
    caf::anon_send(from.pool, worker_counted{from.instance, std::move(counted->all)});
  } else if (std::holds_alternative<drain>(m)) {
    caf::anon_send(from.pool, worker_leaving{from.instance});
  } else if (!std::holds_alternative<heartbeat>(m)) {
    facts->metrics().dropped("worker_unexpected");
  }
}

// Credit returns at once: unread output is bounded by the clients' streams and affects only them.
void worker_server::wall::give_credit(linked_worker& to, std::size_t bytes) {
  to.arrived_bytes += bytes;
  if (to.arrived_bytes - to.credited_bytes < window_bytes / 4)
    return;
  to.credited_bytes = to.arrived_bytes;
  send(to, credit{to.arrived_bytes});
}

void worker_server::wall::lose(process_id process, const std::string& how, bool has_ended) {
  const auto w = workers.find(process);
  caf::anon_send(w->second.pool, worker_lost{w->second.instance, how, has_ended});
  workers.erase(w);
}

void worker_server::wall::receive_some() {
  for (int i = 0; i < worker_messages_per_poll; ++i) {
    const auto parts = router.receive();
    if (parts.empty())
      return;
    const auto fault = guarded("worker", [&] { take(parts.front().to_string(), parts); });
    if (fault) { // without its message, the worker or its clients could wait without end
      static_cast<void>(guarded("worker", [&] { lose_faulty(parts, *fault); }));
    }
  }
}

void worker_server::wall::lose_faulty(const std::vector<zmq::message_t>& parts, const error& why) {
  const auto f = router_socket::packet_of(parts);
  const auto head = f ? decode_foreign_envelope(f->head) : f.error();
  if (auto* worker = head ? known(parts.front().to_string(), *head) : nullptr)
    lose(worker->instance.process, why.message, /*has_ended=*/false);
}

void worker_server::wall::send_all() {
  std::uint64_t ignored = 0;
  if (read(bell.get(), &ignored, sizeof ignored) < 0) {
    // EAGAIN: not signalled.
  }
  std::vector<std::pair<worker_incarnation, message>> all;
  {
    const std::lock_guard lock(mutex);
    all = std::exchange(outgoing, {});
  }
  for (const auto& [instance, m] : all)
    if (const auto w = workers.find(instance.process);
        w != workers.end() && w->second.instance == instance)
      send(w->second, m);
}

void worker_server::wall::beat(clock::time_point now) {
  if (now < next_beat)
    return;
  next_beat = now + heartbeat_interval;
  for (auto& [process, w] : workers) {
    heartbeat h;
    h.count = ++w.beats;
    h.steps = w.sequence_in; // acknowledges messages up to this one
    send(w, h);
    if (now - w.last_seen > silence_max && !std::exchange(w.is_reported_silent, true))
      caf::anon_send(w.pool, worker_silent{w.instance});
  }
}

// Messages that the worker sent before its end are in the socket already: read them first.
void worker_server::wall::wait() {
  std::vector<zmq::pollitem_t> items{{router.handle(), 0, ZMQ_POLLIN, 0},
                                     {nullptr, bell.get(), ZMQ_POLLIN, 0}};
  std::vector<process_id> processes;
  for (const auto& [process, w] : workers) {
    items.push_back({nullptr, w.pidfd.get(), ZMQ_POLLIN, 0});
    processes.push_back(process);
  }
  zmq::poll(items.data(), items.size(), worker_poll_interval);
  receive_some();
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const auto w = workers.find(processes[i]);
    const auto& item = items[i + 2];
    if ((item.revents & ZMQ_POLLIN) != 0 && w != workers.end() && w->second.pidfd.get() == item.fd)
      lose(processes[i], "its process has ended", /*has_ended=*/true);
  }
}

void worker_server::wall::loop() {
  while (!is_stopping) {
    wait();
    send_all();
    beat(clock::now());
  }
}

void worker_server::wall::run() {
  while (!is_stopping) {
    try {
      loop();
    } catch (const zmq::error_t& e) {
      if (e.num() == EINTR)
        continue; // a signal for another part of the process
      spdlog::error("the worker server stopped: {}", e.what());
      break;
    }
  }
}

worker_server::worker_server(std::unique_ptr<wall> w) : wall_(std::move(w)) {}

worker_server::~worker_server() {
  stop();
}

result<std::unique_ptr<worker_server>> worker_server::bind(const std::string& endpoint,
                                                           std::shared_ptr<gateway_state> facts) {
  auto w = std::make_unique<wall>(std::move(facts));
  if (auto ok = w->bind(endpoint); !ok)
    return ok.error();
  return std::make_unique<worker_server>(std::move(w));
}

void worker_server::start(pools_by_process pools) {
  wall_->pools = std::move(pools);
  wall_->thread = std::thread([w = wall_.get()] { w->run(); });
}

void worker_server::change(pools_by_process pools) {
  const std::lock_guard lock(wall_->mutex);
  wall_->next_pools = std::move(pools);
}

void worker_server::send(worker_incarnation to, message m) {
  {
    const std::lock_guard lock(wall_->mutex);
    wall_->outgoing.emplace_back(to, std::move(m));
  }
  wall_->ring();
}

void worker_server::stop() {
  if (wall_->thread.joinable()) {
    wall_->is_stopping = true;
    wall_->ring();
    wall_->thread.join();
  }
}

} // namespace baton::gateway
