#include "gateway/zmq/zmq_server.hpp"

#include "gateway/auth/crash_record.hpp"
#include "gateway/state/request_guard.hpp"
#include "gateway/zmq/router_socket.hpp"
#include "gateway/zmq/zmq_client.hpp"

#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace baton::gateway {
namespace {

using clock = std::chrono::steady_clock;

// Frames for a client that does not read; its window bounds data long before.
constexpr int send_frames_max = 64 * 1024;
constexpr int messages_per_poll = 256; // then the streams are served
constexpr std::chrono::milliseconds poll_interval{250};

// Requests with new events, added by the threads of the pipeline clients.
class ready_list {
public:
  ready_list() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    ENSURE(fd_ >= 0, "eventfd: {}", std::strerror(errno));
  }
  ~ready_list() { close(fd_); }
  ready_list(const ready_list&) = delete;
  ready_list& operator=(const ready_list&) = delete;

  struct entry {
    std::string client; // routing id
    std::uint64_t request = 0;
  };
  void add(entry e) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(e));
    if (entries_.size() == 1) {
      ring();
    }
  }
  std::vector<entry> take() {
    std::uint64_t ignored = 0;
    if (read(fd_, &ignored, sizeof ignored) < 0) {
      // EAGAIN: not signalled.
    }
    const std::lock_guard lock(mutex_);
    return std::exchange(entries_, {});
  }
  void ring() {
    const std::uint64_t one = 1;
    if (write(fd_, &one, sizeof one) < 0) {
      // EAGAIN: the counter is full, so it is signalled already.
    }
  }
  int fd() const noexcept { return fd_; }

private:
  int fd_;
  std::mutex mutex_;
  std::vector<entry> entries_;
};

bool is_local(const std::string& endpoint) {
  const auto starts = [&](const char* p) { return endpoint.rfind(p, 0) == 0; };
  return starts("ipc://") || starts("tcp://127.") || starts("tcp://[::1]:") ||
         starts("tcp://localhost:");
}

// All clients of this server are on this machine.
crash_client crash_client_of(const principal& who) noexcept {
  return {who.name(), "of ZeroMQ"};
}

} // namespace

struct zmq_server::wall {
  std::shared_ptr<gateway_state> facts;
  admission opener;
  router_socket router;
  std::shared_ptr<ready_list> ready = std::make_shared<ready_list>();
  std::unordered_map<std::string, zmq_client> clients; // by routing id
  std::string endpoint;
  std::atomic<bool> is_stopping{false};
  clock::time_point next_beat;
  std::thread thread;

  wall(const request_router_actor& f, std::shared_ptr<gateway_state> b)
      : facts(b), opener(f, b, "zmq") {}

  result<void> bind();
  void run();
  void loop();
  void receive_some();
  void end_faulty(const std::string& id, const std::vector<zmq::message_t>& parts,
                  const error& why);
  void take(const std::string& id, const std::vector<zmq::message_t>& parts);
  zmq_client* known(const std::string& id, const envelope& head);
  void greet(const std::string& id, const hello& h);
  void refuse(const std::string& id, const hello& h, const error& why);
  void forget_lost(clock::time_point now);
  metrics& counts() { return facts->metrics(); }
  const zmq_limits& limits() const { return facts->config().zmq_bounds; }
};

result<void> zmq_server::wall::bind() {
  const auto& text = facts->config().zmq;
  if (!is_local(text)) {
    return fail_param(errc::bad_config, "zmq",
                      "'{}' is not ipc:// or a loopback address: this connection is not "
                      "encrypted, so it does not listen elsewhere",
                      text);
  }
  auto taken = router.bind(text, {send_frames_max, messages_per_poll, limits().message_bytes_max});
  if (!taken) {
    auto why = taken.error();
    why.param = "zmq";
    return why;
  }
  endpoint = *std::move(taken);
  return {};
}

void zmq_server::wall::refuse(const std::string& id, const hello& h, const error& why) {
  counts().refused("zmq", why.code);
  router.refuse(facts->config(), id, h, why);
}

void zmq_server::wall::greet(const std::string& id, const hello& h) {
  if (h.role != role::client) {
    refuse(id, h, fail(errc::forbidden, "this endpoint is for clients"));
    return;
  }
  if (const auto known = clients.find(id);
      known != clients.end() && known->second.incarnation() == h.incarnation) {
    known->second.acknowledge(); // our answer was late
    return;
  }
  auto identity = facts->authenticator().identify(h.api_key);
  if (!identity) {
    refuse(id, h, identity.error());
    return;
  }
  if (const auto no = refusal_of_suspect(facts->crashes(), crash_client_of(*identity))) {
    refuse(id, h, no->reason);
    return;
  }
  // The same client after a lost connection or a restart: its old requests end now.
  std::erase_if(clients, [&](const auto& c) {
    return c.second.process() == h.process && c.second.identity().account == identity->account;
  });
  clients.erase(id);
  if (clients.size() >= limits().clients_max) {
    refuse(id, h, fail(errc::overloaded, "the server has {} clients, its limit", clients.size()));
    return;
  }
  zmq_client::wiring wires;
  wires.send = [this, id](const frames& f) { return router.send(id, f); };
  wires.wake_for = [list = ready, id](std::uint64_t request) {
    return [list, id, request] { list->add({id, request}); };
  };
  auto [it, added] =
      clients.try_emplace(id, opener, h, *std::move(identity), std::move(wires), clock::now());
  it->second.acknowledge();
}

void zmq_server::wall::take(const std::string& id, const std::vector<zmq::message_t>& parts) {
  auto f = router_socket::packet_of(parts);
  const auto head = f ? decode_envelope(f->head) : f.error();
  auto* client = head ? known(id, *head) : nullptr;
  const crash_record::handling noted(facts->crashes(), client ? crash_client_of(client->identity())
                                                              : crash_client_of({}));
  auto body = head ? decode_body(*head, f->body, f->bulk) : head.error();
  if (!body) {
    counts().dropped("zmq_bad_frame");
    if (client) {
      client->refuse_unreadable(*head, body.error(), clock::now());
    }
    return;
  }
  if (const auto* h = std::get_if<hello>(&*body)) {
    greet(id, *h);
  } else if (client) {
    client->take(*std::move(body), clock::now());
  } else {
    counts().dropped("zmq_stranger");
  }
}

// The client that sent this message; null if the sender is unknown.
zmq_client* zmq_server::wall::known(const std::string& id, const envelope& head) {
  const auto client = clients.find(id);
  const bool is_known = client != clients.end() &&
                        client->second.incarnation() == head.source_incarnation &&
                        head.target_incarnation == facts->config().incarnation;
  return is_known ? &client->second : nullptr;
}

void zmq_server::wall::receive_some() {
  for (int i = 0; i < messages_per_poll; ++i) {
    const auto parts = router.receive();
    if (parts.empty()) {
      return;
    }
    const auto id = parts.front().to_string();
    if (const auto fault = guarded("zmq", [&] { take(id, parts); })) {
      static_cast<void>(guarded("zmq", [&] { end_faulty(id, parts, *fault); }));
    }
  }
}

void zmq_server::wall::end_faulty(const std::string& id, const std::vector<zmq::message_t>& parts,
                                  const error& why) {
  counts().refused("zmq", why.code);
  const auto f = router_socket::packet_of(parts);
  const auto head = f ? decode_envelope(f->head) : f.error();
  if (auto* client = head ? known(id, *head) : nullptr) {
    client->end_faulty(*head, why, clock::now());
  }
}

void zmq_server::wall::forget_lost(clock::time_point now) {
  const auto gone = std::erase_if(
      clients, [&](const auto& c) { return c.second.is_lost() || c.second.is_silent(now); });
  for (std::size_t i = 0; i < gone; ++i) {
    counts().client_gone("zmq");
  }
}

void zmq_server::wall::loop() {
  std::array<zmq::pollitem_t, 2> items{
      {{router.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, ready->fd(), ZMQ_POLLIN, 0}}};
  while (!is_stopping) {
    zmq::poll(items.data(), items.size(), poll_interval);
    if (facts->is_informed()) {
      receive_some();
    } else { // streams go on meanwhile
      std::this_thread::sleep_for(heads_look_interval);
    }
    for (const auto& [id, request] : ready->take()) {
      if (const auto client = clients.find(id); client != clients.end()) {
        const auto pump = [&, &request = request] {
          const crash_record::handling noted(facts->crashes(),
                                             crash_client_of(client->second.identity()));
          client->second.pump(request);
        };
        if (const auto fault = guarded("zmq", pump)) {
          static_cast<void>(guarded(
              "zmq", [&, &request = request] { client->second.end_faulty(request, *fault); }));
        }
      }
    }
    const auto now = clock::now();
    if (now >= next_beat) {
      next_beat = now + limits().heartbeat_interval;
      for (auto& [id, client] : clients) {
        static_cast<void>(guarded("zmq", [&client = client] { client.beat(); }));
      }
    }
    forget_lost(now);
  }
}

void zmq_server::wall::run() {
  while (!is_stopping) {
    try {
      loop();
    } catch (const zmq::error_t& e) {
      if (e.num() == EINTR) {
        continue; // a signal for another part of the process
      }
      spdlog::error("the ZeroMQ server stopped: {}", e.what());
      break;
    }
  }
  clients.clear(); // cancels open requests
}

zmq_server::zmq_server(std::unique_ptr<wall> w) : wall_(std::move(w)) {}

zmq_server::~zmq_server() {
  stop();
}

result<std::unique_ptr<zmq_server>> zmq_server::start(const request_router_actor& router,
                                                      std::shared_ptr<gateway_state> facts) {
  auto w = std::make_unique<wall>(router, std::move(facts));
  if (auto ok = w->bind(); !ok) {
    return ok.error();
  }
  w->thread = std::thread([p = w.get()] { p->run(); });
  return std::make_unique<zmq_server>(std::move(w));
}

std::string zmq_server::endpoint() const {
  return wall_->endpoint;
}

void zmq_server::stop() {
  if (wall_->thread.joinable()) {
    wall_->is_stopping = true;
    wall_->ready->ring();
    wall_->thread.join();
  }
}

} // namespace baton::gateway
