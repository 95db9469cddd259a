// The client's end of the door's protocol (docs/protocol.md, "The ZeroMQ door").
#include "sdk/cpp/connection.hpp"

#include "schema/limits.hpp"
#include "schema/packet.hpp"

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.hpp>

#include <array>
#include <random>

namespace baton::sdk {
namespace {

// The same in every process of their role (actors/interfaces.hpp, well_known).
constexpr actor_id door_actor{7};
constexpr actor_id client_actor{8};

// What cancel messages may take when a client goes: longer helps nobody.
constexpr int linger_ms = 200;
// Of one stream, unread: a whole answer of the longest context is below it.
constexpr std::size_t inbox_bytes_max = limits::chunk_bytes_max;
// Messages taken in before the queue of outgoing ones is looked at again.
constexpr int messages_per_turn_max = 64;

std::uint32_t random_node() {
  std::random_device random;
  return random() | 0x80000000u; // the cluster's own nodes have the highest bit clear
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

cancel cancel_of(ticket_id ticket) {
  cancel m;
  m.ticket = ticket;
  return m;
}

// The request number that an answer carries; 0 for what is no answer.
std::uint64_t request_of(const message& m) {
  return std::visit(
      [](const auto& content) -> std::uint64_t {
        if constexpr (requires { content.request; })
          return content.request;
        else
          return 0;
      },
      m);
}

} // namespace

struct door_socket {
  zmq::context_t context{1};
  zmq::socket_t socket{context, zmq::socket_type::dealer};
  zmq::socket_t monitor{context, zmq::socket_type::pair};
  int wake = -1; // eventfd: something is queued

  ~door_socket() {
    if (wake >= 0)
      ::close(wake);
  }

  // Throws zmq::error_t.
  void connect(const std::string& endpoint) {
    wake = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    socket.set(zmq::sockopt::linger, linger_ms);
    socket.set(zmq::sockopt::maxmsgsize,
               std::int64_t{limits::client_body_bytes_max + limits::packet_extra_bytes_max});
    monitor.set(zmq::sockopt::linger, 0);
    const char* const events = "inproc://door-events";
    if (zmq_socket_monitor(socket.handle(), events, ZMQ_EVENT_DISCONNECTED) != 0)
      throw zmq::error_t();
    monitor.connect(events);
    socket.connect(endpoint);
  }

  // Whether the door can be heard, within `timeout`. Clears the wake-up.
  struct readiness {
    bool readable = false;
    bool disconnected = false;
  };
  readiness wait(std::chrono::milliseconds timeout, bool for_room) {
    std::array<zmq::pollitem_t, 3> items{
        {{socket.handle(), 0, static_cast<short>(ZMQ_POLLIN | (for_room ? ZMQ_POLLOUT : 0)), 0},
         {monitor.handle(), 0, ZMQ_POLLIN, 0},
         {nullptr, wake, ZMQ_POLLIN, 0}}};
    zmq::poll(items.data(), items.size(), timeout);
    std::uint64_t count = 0;
    if ((items[2].revents & ZMQ_POLLIN) != 0)
      (void)!::read(wake, &count, sizeof count);
    return {(items[0].revents & ZMQ_POLLIN) != 0, (items[1].revents & ZMQ_POLLIN) != 0};
  }

  void notify() const {
    const std::uint64_t one = 1;
    (void)!::write(wake, &one, sizeof one); // can only fail when a wake-up is pending anyway
  }

  bool send(const frames& made) {
    zmq::message_t packet(packed_bytes(made));
    pack(made, packet.data<std::byte>());
    return socket.send(packet, zmq::send_flags::dontwait).has_value();
  }

  // Nothing: no message waits. Errors: bad_frame.
  result<std::optional<frames>> receive() {
    zmq::message_t packet;
    if (!socket.recv(packet, zmq::recv_flags::dontwait))
      return std::optional<frames>{};
    if (packet.more())
      return fail(errc::bad_frame, "a message of the door has more than one frame");
    auto f = unpack(packet.data(), packet.size());
    if (!f)
      return f.error();
    return std::optional(*std::move(f));
  }
};

connection::connection(std::unique_ptr<door_socket> socket, const client_options& options)
    : options_(options), socket_(std::move(socket)), node_{random_node()}, epoch_{now_ns()} {}

result<std::shared_ptr<connection>> connection::open(const std::string& endpoint,
                                                     const client_options& options) {
  try {
    auto socket = std::make_unique<door_socket>();
    socket->connect(endpoint);
    auto made = std::make_shared<connection>(std::move(socket), options);
    if (auto greeted = made->say_hello(); !greeted)
      return greeted.error();
    made->thread_ = std::jthread([c = made.get()](std::stop_token stop) { c->run(stop); });
    return made;
  } catch (const zmq::error_t& e) {
    return fail(errc::bad_config, "cannot connect to '{}': {}", endpoint, e.what());
  }
}

connection::~connection() {
  if (!thread_.joinable())
    return;
  thread_.request_stop();
  socket_->notify();
  thread_.join();
}

frames connection::framed(const message& m) {
  envelope e;
  e.source = node_;
  e.source_epoch = epoch_;
  e.target = door_;
  e.target_epoch = door_epoch_;
  e.source_actor = client_actor;
  e.target_actor = door_actor;
  e.correlation = request_of(m);
  e.sequence = ++sequence_out_;
  return encode(e, m);
}

// Runs on the caller's thread, before the socket gets its own.
result<void> connection::say_hello() {
  const auto deadline = clock::now() + options_.connect_timeout;
  hello us;
  us.node = node_;
  us.epoch = epoch_;
  us.role = role::client;
  us.name = options_.name.substr(0, limits::name_bytes_max);
  us.pid = ::getpid();
  socket_->send(framed(us));
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now());
    if (left.count() <= 0)
      return fail(errc::link_down, "no door answered within {} ms",
                  options_.connect_timeout.count());
    if (socket_->wait(left, /*for_room=*/false).disconnected)
      return fail(errc::link_down, "the door closed the connection");
    auto heard = socket_->receive();
    if (!heard)
      return heard.error();
    if (!*heard)
      continue;
    auto e = decode_envelope((*heard)->head);
    if (!e)
      return e.error();
    auto m = decode_body(*e, (*heard)->body, (*heard)->bulk);
    if (!m)
      return m.error();
    return take_hello_ack(*m, *e);
  }
}

result<void> connection::take_hello_ack(const message& m, const envelope& e) {
  if (const auto* refused = std::get_if<rejected>(&m))
    return refused->reason;
  const auto* ack = std::get_if<hello_ack>(&m);
  if (ack == nullptr)
    return fail(errc::bad_frame, "the door answered hello with {}", name_of(e.kind));
  if (ack->refused)
    return *ack->refused;
  door_ = ack->node;
  door_epoch_ = ack->epoch;
  window_bytes_ = ack->credit_bytes;
  sequence_in_ = e.sequence;
  return {};
}

void connection::run(std::stop_token stop) {
  try {
    auto heartbeat_due = clock::now() + options_.heartbeat_interval;
    auto silent_since = clock::now();
    while (!stop.stop_requested())
      if (auto went = turn(heartbeat_due, silent_since); !went)
        return lose(went.error());
    if (auto sent = send_queued(); !sent)
      lose(sent.error());
  } catch (const zmq::error_t& e) {
    lose(fail(errc::link_down, "{}", e.what()));
  }
}

result<void> connection::turn(clock::time_point& heartbeat_due, clock::time_point& silent_since) {
  if (clock::now() >= heartbeat_due) {
    heartbeat_due = clock::now() + options_.heartbeat_interval;
    std::lock_guard lock(mutex_);
    queued_.push_back(heartbeat{++heartbeats_, heartbeats_});
  }
  auto all_sent = send_queued();
  if (!all_sent)
    return all_sent.error();
  const auto until_heartbeat =
      std::chrono::ceil<std::chrono::milliseconds>(heartbeat_due - clock::now());
  const auto ready = socket_->wait(std::max(until_heartbeat, std::chrono::milliseconds{0}),
                                   /*for_room=*/!*all_sent);
  if (auto received = receive_all(silent_since); !received)
    return received;
  if (ready.disconnected)
    return fail(errc::link_down, "the door closed the connection");
  if (clock::now() - silent_since > options_.silence_max)
    return fail(errc::link_down, "the door was silent for {} ms", options_.silence_max.count());
  return {};
}

// False: ZeroMQ has no room now.
result<bool> connection::send_queued() {
  for (;;) {
    std::optional<message> next;
    {
      std::lock_guard lock(mutex_);
      if (queued_.empty())
        return true;
      next = std::move(queued_.front());
      queued_.pop_front();
    }
    if (!socket_->send(framed(*next))) {
      --sequence_out_; // it has not been said
      std::lock_guard lock(mutex_);
      queued_.push_front(std::move(*next));
      return false;
    }
  }
}

result<void> connection::receive_all(clock::time_point& silent_since) {
  for (int count = 0; count < messages_per_turn_max; ++count) {
    auto heard = socket_->receive();
    if (!heard)
      return heard.error();
    if (!*heard)
      return {};
    auto e = decode_envelope((*heard)->head);
    if (!e)
      return e.error();
    if (e->source != door_ || e->source_epoch != door_epoch_)
      return fail(errc::link_down, "another door, or another life of it, answers now");
    if (e->sequence != ++sequence_in_)
      return fail(errc::link_down, "message {} of the door came in place of {}", e->sequence,
                  sequence_in_);
    auto m = decode_body(*e, (*heard)->body, (*heard)->bulk);
    if (!m)
      return m.error();
    silent_since = clock::now();
    const auto bytes = needs_credit(e->kind) ? (*heard)->size_bytes() : 0;
    if (auto delivered = deliver(std::move(*m), bytes); !delivered)
      return delivered;
  }
  socket_->notify(); // more may wait: come back at once
  return {};
}

result<void> connection::deliver(message m, std::size_t bytes) {
  if (std::holds_alternative<heartbeat>(m) || std::holds_alternative<credit>(m))
    return {};
  std::lock_guard lock(mutex_);
  give_back(bytes);
  const auto found = inboxes_.find(request_of(m));
  if (found == inboxes_.end())
    return {};
  auto& box = found->second;
  if (const auto* ticket = std::get_if<granted>(&m)) {
    box.ticket = ticket->ticket;
    if (box.cancel_wanted)
      enqueue(cancel_of(box.ticket));
    return {};
  }
  if (box.ended)
    return {};
  if (box.unread_bytes + bytes > inbox_bytes_max && !box.arrived.empty()) {
    box.ended = fail(errc::slow_reader, "{} bytes of this stream wait unread, its bound is {}",
                     box.unread_bytes, inbox_bytes_max);
    end(box);
  } else {
    box.unread_bytes += bytes;
    box.arrived.push_back({std::move(m), bytes});
  }
  arrived_.notify_all();
  return {};
}

void connection::lose(error why) {
  std::lock_guard lock(mutex_);
  lost_ = std::move(why);
  queued_.clear();
  arrived_.notify_all();
}

void connection::enqueue(message m) {
  if (lost_)
    return;
  queued_.push_back(std::move(m));
  socket_->notify();
}

// A quarter of the window at a time: often enough that the door never waits for us, seldom enough
// that credit is not half of the traffic.
void connection::give_back(std::size_t bytes) {
  arrived_bytes_ += bytes;
  if (arrived_bytes_ - credited_bytes_ <= window_bytes_ / 4 || bytes == 0)
    return;
  credited_bytes_ = arrived_bytes_;
  enqueue(credit{arrived_bytes_});
}

std::uint64_t connection::ask(message question) {
  std::lock_guard lock(mutex_);
  const auto request = ++requests_;
  std::visit(
      [request](auto& content) {
        if constexpr (requires { content.request; })
          content.request = request;
      },
      question);
  inboxes_[request] = {};
  enqueue(std::move(question));
  return request;
}

result<message> connection::take(std::uint64_t request, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  auto& box = inboxes_[request];
  arrived_.wait_for(lock, deadline, [&] { return lost_ || box.ended || !box.arrived.empty(); });
  if (!box.arrived.empty()) {
    auto first = std::move(box.arrived.front());
    box.arrived.pop_front();
    box.unread_bytes -= first.size_bytes;
    return std::move(first.content);
  }
  if (box.ended)
    return *box.ended;
  if (lost_)
    return *lost_;
  return fail(errc::deadline_exceeded, "no answer within {} ms", deadline.count());
}

void connection::cancel(std::uint64_t request) {
  std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(request);
  if (found == inboxes_.end())
    return;
  end(found->second);
}

void connection::end(inbox& box) {
  if (box.ticket)
    enqueue(cancel_of(box.ticket));
  else
    box.cancel_wanted = true;
}

void connection::forget(std::uint64_t request) {
  std::lock_guard lock(mutex_);
  inboxes_.erase(request);
}

ticket_id connection::ticket_of(std::uint64_t request) const {
  std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(request);
  return found != inboxes_.end() ? found->second.ticket : ticket_id{};
}

bool connection::is_open() const {
  std::lock_guard lock(mutex_);
  return !lost_;
}

} // namespace baton::sdk
