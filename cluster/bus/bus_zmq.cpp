#include "cluster/bus/bus_zmq.hpp"

#include "cluster/bus/bus_endpoint.hpp"
#include "cluster/bus/bus_zmq_peer.hpp"
#include "cluster/bus/bus_zmq_zap.hpp"
#include "schema/packet.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

namespace baton::cluster {
namespace {

// Messages received before the peers' events are polled again.
constexpr int messages_per_round = 64;
constexpr std::chrono::milliseconds bus_poll_timeout{500}; // nothing depends on it
// While a key is being changed, or a peer is due for another attempt.
constexpr std::chrono::milliseconds retry_timeout{10};
// Interval of failing handshakes: the refusing peer may learn our key meanwhile. The first few run
// without it, because a machine has two keys while it changes to the other.
constexpr std::chrono::milliseconds handshake_interval{500};
constexpr int quick_handshakes = 4;

// ZeroMQ counts the sockets of a context: per peer the sender and both ends of its monitor, then
// the router and the authenticator. Its default limit of 1,023 allows only 340 peers.
constexpr int sockets_per_peer = 3;
constexpr int sockets_max = sockets_per_peer * static_cast<int>(peers_max) + 16;

// The bus thread's wake-up sources: these, and the monitor of each peer by its number.
constexpr std::uint64_t by_router = 0;
constexpr std::uint64_t by_wake = 1;
constexpr std::uint64_t by_authenticator = 2;
constexpr std::uint64_t first_monitor = 3;
constexpr std::size_t wakeups_per_round = 64;

} // namespace

struct bus_zmq::state {
  explicit state(bus_zmq_options o)
      : options(std::move(o)), own(options.curve.own), context(1, sockets_max),
        authenticator(context), router(context, zmq::socket_type::router),
        wake_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), poll_fd(::epoll_create1(EPOLL_CLOEXEC)) {
    ENSURE(wake_fd >= 0 && poll_fd >= 0, "no eventfd or epoll: {}", std::strerror(errno));
    // No routing ids: with them, a zombie or a stranger could take over a live connection's name.
    // Late messages of an older connection are recognized by their numbers (link.hpp).
    set_bounds(router, options);
    if (options.curve.is_set())
      serve_encrypted(router, own);
  }
  ~state() {
    ::close(poll_fd);
    ::close(wake_fd);
  }

  result<std::shared_ptr<peer_socket>> open(process_id process, const std::string& endpoint);
  void put(std::shared_ptr<peer_socket> p);
  void wake() const noexcept;
  void run();
  void watch(int fd, std::uint64_t number);
  void watch_peers();
  void handle(std::uint64_t number);
  int receive_some();
  void receive_rest(zmq::message_t& id);
  void judge_newcomers();
  void take_events(const std::shared_ptr<peer_socket>& p);
  void take_event(peer_socket& p, connection_event e);
  bool is_current(const std::shared_ptr<peer_socket>& p);
  bool change_key();
  void schedule_retry(peer_socket& p, bool is_refused);
  void run_due_retries();

  const bus_zmq_options options;
  std::mutex key_mutex;
  key_pair own;                   // in use for connecting and listening
  std::optional<key_pair> wanted; // the next one; until it is in use, nothing listens at `unbound`
  std::vector<std::string> bound; // endpoints with keys
  std::vector<std::string> unbound;
  zmq::context_t context;
  zap_authenticator authenticator;
  zmq::socket_t router;
  int wake_fd;
  int poll_fd;
  bus_events events;
  std::thread thread;
  std::atomic<bool> is_stopping = false;
  std::uint64_t next_number = first_monitor; // under peers_mutex

  std::shared_mutex peers_mutex;
  std::map<process_id, std::shared_ptr<peer_socket>> peers;

  // Used by the bus thread only.
  std::unordered_map<std::uint64_t, std::shared_ptr<peer_socket>> watched;
  struct retry {
    std::chrono::steady_clock::time_point due;
    std::string endpoint;
  };
  std::map<std::uint64_t, retry> retries; // by number of the peer's socket

  struct {
    std::atomic<std::uint64_t> sent, received, sent_bytes, received_bytes, bad_frames,
        back_pressure, connects, disconnects, handshakes_failed, strangers;
  } counts{};
};

bus_zmq::bus_zmq(bus_zmq_options options) : state_(std::make_unique<state>(std::move(options))) {}

bus_zmq::~bus_zmq() {
  stop();
}

result<std::string> bus_zmq::bind(const std::string& endpoint) {
  const auto& curve = state_->options.curve;
  if (auto ok = check_endpoint(endpoint, curve.is_set()); !ok)
    return ok.error();
  if (auto ok = clear_stale_socket(endpoint); !ok)
    return ok.error();
  try {
    private_umask only_us;
    state_->router.bind(endpoint);
    const auto bound = state_->router.get(zmq::sockopt::last_endpoint);
    if (!curve.is_set())
      return bound;
    std::lock_guard lock(state_->key_mutex);
    state_->bound.push_back(bound);
    return bound + "#" + state_->own.public_key;
  } catch (const zmq::error_t& e) {
    return fail(e.num() == EADDRINUSE ? errc::address_in_use : errc::io_failed,
                "cannot listen on '{}': {}", endpoint, e.what());
  }
}

result<std::shared_ptr<peer_socket>> bus_zmq::state::open(process_id process,
                                                          const std::string& endpoint) {
  std::unique_lock lock(peers_mutex);
  const auto number = next_number++;
  lock.unlock();
  std::unique_lock key_lock(key_mutex);
  const auto pair = own;
  key_lock.unlock();
  return open_peer(context, options, pair, process, number, endpoint);
}

void bus_zmq::state::put(std::shared_ptr<peer_socket> p) {
  std::shared_ptr<peer_socket> replaced; // closed after the unlock
  std::unique_lock lock(peers_mutex);
  auto& entry = peers[p->process];
  replaced = std::exchange(entry, std::move(p));
  lock.unlock();
  wake();
}

result<void> bus_zmq::connect(process_id peer, const std::string& endpoint) {
  if (state_->is_stopping)
    return fail(errc::link_down, "the bus has stopped");
  auto made = state_->open(peer, endpoint);
  if (!made)
    return made.error();
  state_->put(std::move(*made));
  return {};
}

void bus_zmq::use_key(const key_pair& own) {
  ENSURE(state_->options.curve.is_set(), "a bus without keys has none to change");
  {
    std::lock_guard lock(state_->key_mutex);
    state_->wanted = own;
  }
  state_->wake();
}

std::string bus_zmq::key_in_use() const {
  std::lock_guard lock(state_->key_mutex);
  return state_->own.public_key;
}

void bus_zmq::disconnect(process_id peer) {
  std::unique_lock lock(state_->peers_mutex);
  const auto removed = state_->peers.extract(peer); // closed after the unlock
  lock.unlock();
  if (!removed.empty())
    state_->wake();
}

sent bus_zmq::send(process_id peer, const frames& f) {
  std::shared_ptr<peer_socket> p;
  {
    std::shared_lock lock(state_->peers_mutex);
    auto it = state_->peers.find(peer);
    if (it == state_->peers.end())
      return sent::unknown_peer;
    p = it->second;
  }
  const auto size_bytes = packed_bytes(f);
  if (size_bytes > state_->options.packet_bytes_max)
    return sent::too_large;
  try {
    zmq::message_t packet(size_bytes);
    pack(f, packet.data<std::byte>());
    seal(packet.data<std::byte>(), packet.size());
    std::lock_guard lock(p->mutex);
    if (!try_send(p->out, packet) && !(has_room_now(p->out) && try_send(p->out, packet))) {
      if (!p->is_up)
        return sent::down;
      ++state_->counts.back_pressure;
      return sent::back_pressure;
    }
  } catch (const zmq::error_t&) {
    return sent::down; // the context is ending
  }
  ++state_->counts.sent;
  state_->counts.sent_bytes += f.size_bytes();
  return sent::ok;
}

void bus_zmq::start(bus_events events) {
  ENSURE(!state_->thread.joinable() && !state_->is_stopping, "a bus is started once");
  state_->events = std::move(events);
  state_->thread = std::thread([s = state_.get()] { s->run(); });
}

void bus_zmq::stop() {
  state_->is_stopping = true;
  state_->wake();
  if (state_->thread.joinable())
    state_->thread.join();
  state_->watched.clear();
  std::map<process_id, std::shared_ptr<peer_socket>> closing;
  std::unique_lock lock(state_->peers_mutex);
  closing.swap(state_->peers);
  lock.unlock();
  state_->router.close();
  state_->authenticator.close();
}

bus_zmq_counters bus_zmq::counters() const {
  const auto& c = state_->counts;
  return {.sent = c.sent,
          .received = c.received,
          .sent_bytes = c.sent_bytes,
          .received_bytes = c.received_bytes,
          .bad_frames = c.bad_frames,
          .back_pressure = c.back_pressure,
          .connects = c.connects,
          .disconnects = c.disconnects,
          .handshakes_failed = c.handshakes_failed,
          .strangers = c.strangers};
}

void bus_zmq::state::wake() const noexcept {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the thread wakes up anyway.
  static_cast<void>(!::write(wake_fd, &one, sizeof(one)));
}

// -- The bus thread --

void bus_zmq::state::watch(int fd, std::uint64_t number) {
  epoll_event what{};
  what.events = EPOLLIN;
  what.data.u64 = number;
  ENSURE(::epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &what) == 0, "epoll: {}", std::strerror(errno));
}

// Registers new peers' monitors and removes old ones. A socket's descriptor signals only new
// events, so events that a monitor already holds are read at once.
void bus_zmq::state::watch_peers() {
  std::vector<std::shared_ptr<peer_socket>> fresh;
  std::vector<std::shared_ptr<peer_socket>> gone; // closed after the unlock
  {
    std::shared_lock lock(peers_mutex);
    for (const auto& [number, p] : watched)
      if (const auto it = peers.find(p->process); it == peers.end() || it->second != p)
        gone.push_back(p);
    for (const auto& [process, p] : peers)
      if (!watched.contains(p->number))
        fresh.push_back(p);
  }
  for (const auto& p : gone) {
    static_cast<void>(
        ::epoll_ctl(poll_fd, EPOLL_CTL_DEL, p->monitor.get(zmq::sockopt::fd), nullptr));
    watched.erase(p->number);
  }
  for (const auto& p : fresh) {
    watched.emplace(p->number, p);
    watch(p->monitor.get(zmq::sockopt::fd), p->number);
    take_events(p);
  }
}

void bus_zmq::state::run() {
  pthread_setname_np(pthread_self(), "baton-bus");
  sigset_t all; // signals are for main
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  try {
    watch(router.get(zmq::sockopt::fd), by_router);
    watch(wake_fd, by_wake);
    watch(authenticator.fd(), by_authenticator);
    watch_peers();
    judge_newcomers();
    std::array<epoll_event, wakeups_per_round> woken{};
    while (!is_stopping) {
      const bool has_received = receive_some() == messages_per_round;
      const bool has_more = (events.round_over && events.round_over()) || has_received;
      const bool is_trying = change_key() || !retries.empty();
      const int timeout =
          has_more ? 0 : static_cast<int>((is_trying ? retry_timeout : bus_poll_timeout).count());
      const int count =
          ::epoll_wait(poll_fd, woken.data(), static_cast<int>(woken.size()), timeout);
      ENSURE(count >= 0 || errno == EINTR, "epoll: {}", std::strerror(errno));
      for (int i = 0; i < count; ++i)
        handle(woken[static_cast<std::size_t>(i)].data.u64);
      run_due_retries();
    }
  } catch (const zmq::error_t& e) {
    ENSURE(false, "the bus thread: {}", e.what());
  }
}

// Drains each source that fired, since its descriptor signals only new events.
void bus_zmq::state::handle(std::uint64_t number) {
  if (number == by_router)
    return; // receive_some follows
  if (number == by_authenticator)
    return judge_newcomers();
  if (number == by_wake) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_fd, &count, sizeof(count)));
    return watch_peers();
  }
  if (const auto it = watched.find(number); it != watched.end())
    take_events(std::shared_ptr(it->second));
}

int bus_zmq::state::receive_some() {
  int taken = 0;
  for (; taken < messages_per_round && !is_stopping; ++taken) {
    zmq::message_t id;
    if (!router.recv(id, zmq::recv_flags::dontwait))
      break;
    receive_rest(id);
  }
  return taken;
}

// After the sender's routing id: exactly one frame, already here (multipart is atomic in ZeroMQ).
void bus_zmq::state::receive_rest(zmq::message_t& id) {
  zmq::message_t packet;
  std::size_t count = 0;
  for (bool has_more = id.more(); has_more; ++count) {
    if (!router.recv(packet, zmq::recv_flags::dontwait))
      break;
    has_more = packet.more();
  }
  // The key may have been revoked since the handshake.
  if (options.curve.is_set() && !options.curve.trusted->knows(packet.gets("User-Id"))) {
    ++counts.strangers;
    return;
  }
  auto f = unpack(packet.data(), packet.size());
  if (count != 1 || !f) {
    ++counts.bad_frames;
    return;
  }
  ++counts.received;
  counts.received_bytes += f->size_bytes();
  events.received(*std::move(f));
}

void bus_zmq::state::judge_newcomers() {
  authenticator.judge([this](const std::string& key) {
    const bool may_come = options.curve.is_set() && options.curve.trusted->holds(key);
    if (!may_come)
      ++counts.strangers;
    return may_come;
  });
}

bool bus_zmq::state::is_current(const std::shared_ptr<peer_socket>& p) {
  std::shared_lock lock(peers_mutex);
  auto it = peers.find(p->process);
  return it != peers.end() && it->second == p;
}

void bus_zmq::state::take_events(const std::shared_ptr<peer_socket>& p) {
  while (const auto event = p->next_event())
    if (is_current(p))
      take_event(*p, *event);
}

void bus_zmq::state::take_event(peer_socket& p, connection_event e) {
  if (retries.contains(p.number))
    return; // given up: a late success is ignored, and no disconnect event follows
  switch (e) {
  case connection_event::connected:
    p.failed = 0;
    {
      std::lock_guard lock(p.mutex); // the first message must not be refused
      static_cast<void>(has_room_now(p.out));
    }
    p.is_up = true;
    ++counts.connects;
    events.connected(p.process);
    return;
  case connection_event::disconnected:
    if (!p.is_up.exchange(false))
      return;
    ++counts.disconnects;
    events.disconnected(p.process, "the connection was lost");
    return;
  case connection_event::refused:
  case connection_event::handshake_failed:
    const bool is_refused = e == connection_event::refused;
    p.is_up = false;
    ++counts.handshakes_failed;
    schedule_retry(p, is_refused);
    if (p.failed++ > 0)
      return; // already reported
    events.disconnected(p.process,
                        is_refused ? "the peer does not accept our key" : "the handshake failed");
  }
}

// With these keys ZeroMQ would retry hundreds of times a second, or never again once the peer has
// refused us explicitly. So we close the connection and schedule our own attempt.
void bus_zmq::state::schedule_retry(peer_socket& p, bool is_refused) {
  if (p.to.key.empty())
    return;
  p.give_up();
  const auto server_key = is_refused ? p.to.key : options.curve.trusted->next_after(p.to.key);
  std::unique_lock lock(key_mutex);
  const bool has_other_keys = server_key != p.to.key || own.public_key != p.own_key;
  lock.unlock();
  const bool is_quick = p.failed < quick_handshakes && (has_other_keys || !is_refused);
  const auto wait = is_quick ? std::chrono::milliseconds(0) : handshake_interval;
  retries.emplace(p.number,
                  retry{std::chrono::steady_clock::now() + wait, p.to.address + "#" + server_key});
}

void bus_zmq::state::run_due_retries() {
  const auto now = std::chrono::steady_clock::now();
  for (auto it = retries.begin(); it != retries.end();) {
    if (it->second.due > now) {
      ++it;
      continue;
    }
    const auto p = watched.find(it->first);
    if (p == watched.end() || !is_current(p->second)) {
      it = retries.erase(it);
      continue;
    }
    auto made = open(p->second->process, it->second.endpoint);
    if (!made) { // the endpoint was good before: too few sockets or files are left
      it->second.due = now + handshake_interval;
      ++it;
      continue;
    }
    it = retries.erase(it);
    (*made)->failed = p->second->failed;
    put(std::move(*made));
  }
}

// Listens with the wanted key; connected peers have to reconnect. Returns true if some endpoint is
// not bound yet.
bool bus_zmq::state::change_key() {
  std::lock_guard lock(key_mutex);
  if (!wanted)
    return false;
  for (const auto& endpoint : bound)
    router.unbind(endpoint);
  unbound.insert(unbound.end(), bound.begin(), bound.end());
  bound.clear();
  set_key(router, ZMQ_CURVE_SECRETKEY, wanted->secret_key);
  while (!unbound.empty()) {
    try {
      router.bind(unbound.back());
    } catch (const zmq::error_t&) { // the previous socket is still being closed
      return true;
    }
    bound.push_back(std::move(unbound.back()));
    unbound.pop_back();
  }
  own = *std::exchange(wanted, std::nullopt);
  return false;
}

} // namespace baton::cluster
