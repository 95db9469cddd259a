#include "cluster/bus_zmq.hpp"

#include "cluster/bus_endpoint.hpp"
#include "cluster/bus_zmq_zap.hpp"
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

// Not 0: what was sent just before a peer is given up may still be on its way to it.
constexpr int linger_ms = 200;

// Messages taken before the peers' events are looked at again.
constexpr int messages_per_turn = 64;
constexpr std::chrono::milliseconds poll_timeout{500}; // nothing depends on it

// ZeroMQ counts the sockets of a context: what sends to a peer, and both ends of its monitor; the
// router, the doorkeeper. Its own bound of 1,023 is that of 340 peers.
constexpr int sockets_per_peer = 3;
constexpr int sockets_max = sockets_per_peer * static_cast<int>(peers_max) + 16;

// What the bus thread is woken by: these, and the monitor of a peer by its number.
constexpr std::uint64_t by_router = 0;
constexpr std::uint64_t by_wake = 1;
constexpr std::uint64_t by_door = 2;
constexpr std::uint64_t first_monitor = 3;
constexpr std::size_t wakes_per_turn = 64;

// False: not taken now, and `m` is unchanged. A signal does not count.
bool try_send(zmq::socket_t& to, zmq::message_t& m) {
  for (;;) {
    try {
      return to.send(m, zmq::send_flags::dontwait).has_value();
    } catch (const zmq::error_t& e) {
      if (e.num() != EINTR)
        throw;
    }
  }
}

// ZeroMQ looks at what its threads told it at most once a millisecond when sending, and refuses
// meanwhile; asking for events makes it look.
bool has_room_now(zmq::socket_t& s) {
  return (s.get(zmq::sockopt::events) & ZMQ_POLLOUT) != 0;
}

struct monitor_event {
  std::uint16_t number = 0;
  std::uint32_t value = 0;
};

// The first frame of a monitor's event: 16 bits of event, 32 of value, not aligned.
monitor_event read_event(const zmq::message_t& m) {
  monitor_event e;
  if (m.size() >= sizeof(e.number) + sizeof(e.value)) {
    std::memcpy(&e.number, m.data(), sizeof(e.number));
    std::memcpy(&e.value, m.data<char>() + sizeof(e.number), sizeof(e.value));
  }
  return e;
}

constexpr int watched_events =
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

} // namespace

// Our connection to one peer. `out` is touched under `mutex` only, `monitor` by the bus thread only
// (and by the last owner, who closes both).
struct peer_socket {
  node_id node;
  std::uint64_t number = 0; // of all that this bus has made
  zmq::socket_t out;
  zmq::socket_t monitor;
  std::mutex mutex;
  std::atomic<bool> is_up = false;
  bool has_failed = false; // a handshake; told once until one succeeds

  ~peer_socket() {
    if (out.handle() != nullptr)
      zmq_socket_monitor(out.handle(), nullptr, 0);
  }
};

struct bus_zmq::state {
  explicit state(bus_zmq_options o)
      : options(std::move(o)), context(1, sockets_max), door(context),
        router(context, zmq::socket_type::router),
        wake_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), poll_fd(::epoll_create1(EPOLL_CLOEXEC)) {
    ENSURE(wake_fd >= 0 && poll_fd >= 0, "no eventfd or epoll: {}", std::strerror(errno));
    // Connections stay nameless: with names, a zombie or a stranger could take over a live one's.
    // What an older connection still delivers is told apart by its numbers (link.hpp).
    set_options(router);
    if (options.curve.is_set())
      serve_encrypted(router, options.curve.own);
  }
  ~state() {
    ::close(poll_fd);
    ::close(wake_fd);
  }

  void set_options(zmq::socket_t& s) const;
  result<std::shared_ptr<peer_socket>> open(node_id node, const std::string& endpoint);
  void wake() const noexcept;
  void run();
  void watch(int fd, std::uint64_t number);
  void watch_peers();
  void handle(std::uint64_t number);
  int receive_some();
  void receive_rest(zmq::message_t& id);
  void judge_newcomers();
  void take_events(const std::shared_ptr<peer_socket>& p);
  void take_event(peer_socket& p, monitor_event e);
  bool is_current(const std::shared_ptr<peer_socket>& p);

  bus_zmq_options options;
  zmq::context_t context;
  doorkeeper door;
  zmq::socket_t router;
  int wake_fd;
  int poll_fd;
  bus_events events;
  std::thread thread;
  std::atomic<bool> is_stopping = false;
  std::uint64_t next_number = first_monitor; // under peers_mutex

  std::shared_mutex peers_mutex;
  std::map<node_id, std::shared_ptr<peer_socket>> peers;

  // The bus thread's own.
  std::unordered_map<std::uint64_t, std::shared_ptr<peer_socket>> watched;

  struct {
    std::atomic<std::uint64_t> sent, received, sent_bytes, received_bytes, bad_frames,
        back_pressure, connects, disconnects, handshakes_failed, strangers;
  } counts{};
};

bus_zmq::bus_zmq(bus_zmq_options options) : state_(std::make_unique<state>(std::move(options))) {}

bus_zmq::~bus_zmq() {
  stop();
}

void bus_zmq::state::set_options(zmq::socket_t& s) const {
  const auto milliseconds = [](auto d) { return static_cast<int>(d.count()); };
  s.set(zmq::sockopt::linger, linger_ms);
  s.set(zmq::sockopt::sndhwm, options.messages_queued_max);
  s.set(zmq::sockopt::rcvhwm, options.messages_queued_max);
  s.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(options.packet_bytes_max));
  s.set(zmq::sockopt::heartbeat_ivl, milliseconds(options.heartbeat_interval));
  s.set(zmq::sockopt::heartbeat_timeout, milliseconds(options.heartbeat_timeout));
  s.set(zmq::sockopt::heartbeat_ttl, milliseconds(options.heartbeat_timeout));
  s.set(zmq::sockopt::handshake_ivl, milliseconds(options.handshake_timeout));
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
    return curve.is_set() ? bound + "#" + curve.own.public_key : bound;
  } catch (const zmq::error_t& e) {
    return fail(e.num() == EADDRINUSE ? errc::address_in_use : errc::io_failed,
                "cannot listen on '{}': {}", endpoint, e.what());
  }
}

result<std::shared_ptr<peer_socket>> bus_zmq::state::open(node_id node,
                                                          const std::string& endpoint) {
  const auto to = split_key(endpoint);
  if (auto ok = check_endpoint(to.address, !to.key.empty()); !ok)
    return ok.error();
  if (!to.key.empty() && !options.curve.is_set())
    return fail(errc::bad_config, "'{}' wants a key of ours, and there is none (cluster keygen)",
                endpoint);
  auto p = std::make_shared<peer_socket>();
  p->node = node;
  {
    std::unique_lock lock(peers_mutex);
    p->number = next_number++;
  }
  try {
    p->out = zmq::socket_t(context, zmq::socket_type::dealer);
    set_options(p->out);
    p->out.set(zmq::sockopt::immediate, true); // never queue for a peer that is not there
    p->out.set(zmq::sockopt::reconnect_ivl, static_cast<int>(options.reconnect_interval.count()));
    p->out.set(zmq::sockopt::reconnect_ivl_max,
               static_cast<int>(options.reconnect_interval_max.count()));
    if (!to.key.empty())
      connect_encrypted(p->out, options.curve.own, to.key);
    const auto name = fmt::format("inproc://monitor-{}", p->number);
    if (zmq_socket_monitor(p->out.handle(), name.c_str(), watched_events) != 0)
      return fail(errc::io_failed, "no monitor: {}", zmq_strerror(zmq_errno()));
    p->monitor = zmq::socket_t(context, zmq::socket_type::pair);
    p->monitor.set(zmq::sockopt::linger, 0);
    p->monitor.connect(name);
    p->out.connect(to.address);
  } catch (const zmq::error_t& e) {
    return fail(errc::bad_config, "cannot connect to '{}': {}", endpoint, e.what());
  }
  return p;
}

result<void> bus_zmq::connect(node_id peer, const std::string& endpoint) {
  if (state_->is_stopping)
    return fail(errc::link_down, "the bus has stopped");
  auto made = state_->open(peer, endpoint);
  if (!made)
    return made.error();
  std::shared_ptr<peer_socket> replaced;
  {
    std::unique_lock lock(state_->peers_mutex);
    replaced = std::exchange(state_->peers[peer], *made);
  }
  state_->wake();
  return {};
}

void bus_zmq::disconnect(node_id peer) {
  std::shared_ptr<peer_socket> removed;
  {
    std::unique_lock lock(state_->peers_mutex);
    auto it = state_->peers.find(peer);
    if (it == state_->peers.end())
      return;
    removed = std::move(it->second);
    state_->peers.erase(it);
  }
  state_->wake();
}

sent bus_zmq::send(node_id peer, const frames& f) {
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
  std::map<node_id, std::shared_ptr<peer_socket>> closing;
  std::unique_lock lock(state_->peers_mutex);
  closing.swap(state_->peers);
  lock.unlock();
  state_->router.close();
  state_->door.close();
}

bus_zmq_counters bus_zmq::counters() const {
  const auto& c = state_->counts;
  return {c.sent,          c.received, c.sent_bytes,  c.received_bytes,    c.bad_frames,
          c.back_pressure, c.connects, c.disconnects, c.handshakes_failed, c.strangers};
}

void bus_zmq::state::wake() const noexcept {
  const std::uint64_t one = 1;
  // Fails only if the counter is full: then it wakes anyway.
  static_cast<void>(!::write(wake_fd, &one, sizeof(one)));
}

// -- The bus thread --

void bus_zmq::state::watch(int fd, std::uint64_t number) {
  epoll_event what{};
  what.events = EPOLLIN;
  what.data.u64 = number;
  ENSURE(::epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &what) == 0, "epoll: {}", std::strerror(errno));
}

// The monitors of the peers that there are by now. A socket's descriptor says only that something
// new has come: what a monitor was told before is asked for at once.
void bus_zmq::state::watch_peers() {
  std::vector<std::shared_ptr<peer_socket>> fresh;
  std::vector<std::shared_ptr<peer_socket>> gone; // closed unlocked
  {
    std::shared_lock lock(peers_mutex);
    for (const auto& [number, p] : watched)
      if (const auto it = peers.find(p->node); it == peers.end() || it->second != p)
        gone.push_back(p);
    for (const auto& [node, p] : peers)
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
    watch(door.fd(), by_door);
    watch_peers();
    judge_newcomers();
    std::array<epoll_event, wakes_per_turn> woken{};
    while (!is_stopping) {
      const bool has_more = receive_some() == messages_per_turn;
      const int timeout = has_more ? 0 : static_cast<int>(poll_timeout.count());
      const int count =
          ::epoll_wait(poll_fd, woken.data(), static_cast<int>(woken.size()), timeout);
      ENSURE(count >= 0 || errno == EINTR, "epoll: {}", std::strerror(errno));
      for (int i = 0; i < count; ++i)
        handle(woken[static_cast<std::size_t>(i)].data.u64);
    }
  } catch (const zmq::error_t& e) {
    ENSURE(false, "the bus thread: {}", e.what());
  }
}

// Whatever wakes is emptied, or it would not wake again.
void bus_zmq::state::handle(std::uint64_t number) {
  if (number == by_router)
    return; // receive_some comes next
  if (number == by_door)
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
  for (; taken < messages_per_turn && !is_stopping; ++taken) {
    zmq::message_t id;
    if (!router.recv(id, zmq::recv_flags::dontwait))
      break;
    receive_rest(id);
  }
  return taken;
}

// After the sender's routing id: exactly one frame, there already (ZeroMQ is atomic in this).
void bus_zmq::state::receive_rest(zmq::message_t& id) {
  zmq::message_t packet;
  std::size_t count = 0;
  for (bool has_more = id.more(); has_more; ++count) {
    if (!router.recv(packet, zmq::recv_flags::dontwait))
      break;
    has_more = packet.more();
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
  door.judge([this](const std::string& key) {
    const bool may_come = options.curve.is_set() && options.curve.trusted->holds(key);
    if (!may_come)
      ++counts.strangers;
    return may_come;
  });
}

bool bus_zmq::state::is_current(const std::shared_ptr<peer_socket>& p) {
  std::shared_lock lock(peers_mutex);
  auto it = peers.find(p->node);
  return it != peers.end() && it->second == p;
}

void bus_zmq::state::take_events(const std::shared_ptr<peer_socket>& p) {
  zmq::message_t event;
  zmq::message_t address;
  while (p->monitor.recv(event, zmq::recv_flags::dontwait)) {
    static_cast<void>(p->monitor.recv(address, zmq::recv_flags::dontwait));
    if (is_current(p))
      take_event(*p, read_event(event));
  }
}

void bus_zmq::state::take_event(peer_socket& p, monitor_event e) {
  switch (e.number) {
  case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
    p.has_failed = false;
    {
      std::lock_guard lock(p.mutex); // the first message must not be refused
      static_cast<void>(has_room_now(p.out));
    }
    p.is_up = true;
    ++counts.connects;
    events.connected(p.node);
    return;
  case ZMQ_EVENT_DISCONNECTED:
    if (!p.is_up.exchange(false))
      return;
    ++counts.disconnects;
    events.disconnected(p.node, "the connection fell");
    return;
  default:
    ++counts.handshakes_failed;
    if (std::exchange(p.has_failed, true))
      return;
    events.disconnected(p.node, e.number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
                                    ? "the peer does not accept our key"
                                    : "the handshake failed");
  }
}

key_pair make_key_pair() {
  char public_key[41];
  char secret_key[41];
  ENSURE(zmq_curve_keypair(public_key, secret_key) == 0, "ZeroMQ was built without CURVE");
  std::array<std::uint8_t, curve_key_bytes> bytes{};
  const auto text = [&bytes](const char* z85) {
    ENSURE(zmq_z85_decode(bytes.data(), z85) != nullptr, "ZeroMQ does not read its own key");
    return key_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  return {text(public_key), text(secret_key)};
}

std::unique_ptr<bus> make_bus_zmq(bus_zmq_options options) {
  return std::make_unique<bus_zmq>(std::move(options));
}

} // namespace baton::cluster
