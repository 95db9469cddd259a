// The client side of the ZeroMQ protocol (docs/reference/protocol.md, "The ZeroMQ door").
#include "sdk/cpp/connection.hpp"

#include "schema/limits.hpp"
#include "sdk/cpp/dealer_socket.hpp"

#include <unistd.h>

#include <algorithm>
#include <random>

namespace baton::sdk {
namespace {

constexpr actor_id client_actor{8}; // as server_actor

// Pause between two attempts to reconnect; it doubles.
constexpr std::chrono::milliseconds resume_retry_min{20};
constexpr std::chrono::milliseconds resume_retry_max{1000};
// Pause between two requests to a server that has just started.
constexpr std::chrono::milliseconds models_interval{50};
// Messages received before the queue of outgoing ones is checked again.
constexpr int messages_per_round_max = 64;

std::uint32_t random_node() {
  std::random_device random;
  return random() | 0x80000000u; // the cluster's own processes have the highest bit clear
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

// The request number of an answer; 0 for other messages.
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

connection::connection(std::string endpoint, const client_options& options)
    : endpoint_(std::move(endpoint)), options_(options),
      socket_(std::make_unique<dealer_socket>()), process_{random_node()} {}

result<std::shared_ptr<connection>> connection::open(const std::string& endpoint,
                                                     const client_options& options) {
  if (options.api_key.size() > limits::name_bytes_max)
    return fail(errc::unauthorized, "no API key has {} bytes", options.api_key.size());
  try {
    auto made = std::make_shared<connection>(endpoint, options);
    if (auto greeted = made->greet(clock::now() + options.connect_timeout, {}); !greeted)
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
  e.source = process_;
  e.source_incarnation = incarnation_;
  e.target = server_;
  e.target_incarnation = server_incarnation_;
  e.source_actor = client_actor;
  e.target_actor = server_actor;
  e.correlation = request_of(m);
  e.sequence = ++sequence_out_;
  return encode(e, m);
}

void connection::connect() {
  socket_->connect(endpoint_);
  incarnation_ = {std::max(now_ns(), incarnation_.value + 1)}; // the clock may have been set back
  server_ = {};
  server_incarnation_ = {};
  sequence_out_ = sequence_in_ = 0;
  arrived_bytes_ = credited_bytes_ = 0;
}

// Runs on the caller's thread the first time, before the socket has its own thread.
result<void> connection::greet(clock::time_point deadline, const std::stop_token& stop) {
  connect();
  hello us;
  us.process = process_;
  us.incarnation = incarnation_;
  us.role = role::client;
  us.name = options_.name.substr(0, limits::name_bytes_max);
  us.pid = ::getpid();
  us.api_key = options_.api_key;
  socket_->send(framed(us));
  auto m = await_reply(deadline, stop);
  if (!m)
    return m.error();
  if (const auto* refused = std::get_if<rejected>(&*m))
    return refused->reason;
  const auto* ack = std::get_if<hello_ack>(&*m);
  if (ack == nullptr)
    return fail(errc::bad_frame, "the gateway answered hello with {}", name_of(kind_of(*m)));
  if (ack->refused)
    return *ack->refused;
  server_ = ack->process;
  server_incarnation_ = ack->incarnation;
  window_bytes_ = ack->credit_bytes;
  return {};
}

// A gateway that has just started rejects all requests until it knows the served models.
result<void> connection::await_model(clock::time_point deadline, const std::stop_token& stop) {
  for (;; socket_->pause(models_interval)) {
    socket_->send(framed(list_models{}));
    auto m = await_reply(std::min(deadline, clock::now() + options_.silence_max), stop);
    if (!m)
      return m.error();
    const auto* listed = std::get_if<models>(&*m);
    if (listed == nullptr)
      return fail(errc::bad_frame, "the gateway answered list_models with {}",
                  name_of(kind_of(*m)));
    const auto serves = [](const model_card& c) {
      return c.phase == phase::ready || c.phase == phase::recovering;
    };
    if (std::any_of(listed->cards.begin(), listed->cards.end(), serves))
      return {};
  }
}

void connection::resend_open() {
  std::lock_guard lock(mutex_);
  is_connected_ = true;
  for (auto it = inboxes_.begin(); it != inboxes_.end();) {
    auto rest = it->second.rest(it->first);
    const bool is_done = !rest && it->second.is_forgotten;
    if (rest)
      enqueue(std::move(*rest));
    it = is_done ? inboxes_.erase(it) : std::next(it);
  }
  arrived_.notify_all(); // wakes calls whose rest cannot be requested
}

result<void> connection::reconnect(const error& why, attempts& left, const std::stop_token& stop) {
  while (clock::now() < left.deadline && !stop.stop_requested()) {
    const auto until = std::chrono::ceil<std::chrono::milliseconds>(left.deadline - clock::now());
    socket_->pause(std::min(left.pause, until));
    left.pause = std::clamp(2 * left.pause, resume_retry_min, resume_retry_max);
    auto back = greet(std::min(left.deadline, clock::now() + options_.silence_max), stop);
    if (back)
      back = await_model(left.deadline, stop);
    if (back) {
      resend_open();
      return {};
    }
    if (!row_of(back.error().code).retryable)
      return back;
  }
  return why;
}

void connection::prepare(attempts& left, clock::time_point opened_at) {
  std::lock_guard lock(mutex_);
  const bool was_steady = clock::now() - opened_at >= options_.silence_max;
  if (was_steady || is_answered_ || left.deadline == clock::time_point{})
    left.deadline = clock::now() + options_.reconnect_timeout;
  if (was_steady)
    left.pause = {};
  is_answered_ = false;
}

void connection::run(const std::stop_token& stop) {
  attempts left;
  try {
    for (;;) {
      const auto opened_at = clock::now();
      auto served = serve(stop);
      disconnect();
      if (served)
        return; // the client was closed
      prepare(left, opened_at);
      if (row_of(served.error().code).retryable)
        served = reconnect(served.error(), left, stop);
      if (!served)
        return lose(served.error());
    }
  } catch (const zmq::error_t& e) {
    lose(fail(errc::link_down, "{}", e.what()));
  }
}

// Runs until the connection is lost (the error) or the client is closed.
result<void> connection::serve(const std::stop_token& stop) {
  auto heartbeat_due = clock::now() + options_.heartbeat_interval;
  auto silent_since = clock::now();
  while (!stop.stop_requested())
    if (auto went = run_once(heartbeat_due, silent_since); !went)
      return went;
  if (auto sent = send_queued(); !sent)
    return sent.error();
  return {};
}

result<void> connection::run_once(clock::time_point& heartbeat_due,
                                  clock::time_point& silent_since) {
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
    return fail(errc::link_down, "the gateway closed the connection");
  if (clock::now() - silent_since > options_.silence_max)
    return fail(errc::link_down, "the gateway was silent for {} ms", options_.silence_max.count());
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
      --sequence_out_; // it has not been sent
      std::lock_guard lock(mutex_);
      queued_.push_front(std::move(*next));
      return false;
    }
  }
}

// Nothing: no message is waiting.
result<std::optional<connection::received_message>> connection::receive() {
  auto parts = socket_->receive();
  if (!parts)
    return parts.error();
  if (!*parts)
    return std::optional<received_message>{};
  auto e = decode_envelope((*parts)->head);
  if (!e)
    return e.error();
  auto m = decode_body(*e, (*parts)->body, (*parts)->bulk);
  if (!m)
    return m.error();
  const auto bytes = needs_credit(e->kind) ? (*parts)->size_bytes() : 0;
  return std::optional(received_message{*e, std::move(*m), bytes});
}

// The server's answer to the only outstanding request.
result<message> connection::await_reply(clock::time_point deadline, const std::stop_token& stop) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
    if (left.count() <= 0)
      return fail(errc::link_down, "no gateway answered in time");
    if (stop.stop_requested())
      return fail(errc::link_down, "the client was closed");
    if (socket_->wait(left, /*for_room=*/false).disconnected)
      return fail(errc::link_down, "the gateway closed the connection");
    auto next = receive();
    if (!next)
      return next.error();
    if (!*next)
      continue;
    sequence_in_ = (*next)->head.sequence;
    if (!std::holds_alternative<heartbeat>((*next)->content))
      return std::move((*next)->content);
  }
}

result<void> connection::receive_all(clock::time_point& silent_since) {
  for (int count = 0; count < messages_per_round_max; ++count) {
    auto next = receive();
    if (!next)
      return next.error();
    if (!*next)
      return {};
    auto& [e, content, data_bytes] = **next;
    if (e.source != server_ || e.source_incarnation != server_incarnation_)
      return fail(errc::link_down, "another gateway process answers now");
    if (e.sequence != ++sequence_in_)
      return fail(errc::link_down, "message {} of the gateway came in place of {}", e.sequence,
                  sequence_in_);
    silent_since = clock::now();
    if (auto delivered = deliver(std::move(content), data_bytes); !delivered)
      return delivered;
  }
  socket_->notify(); // more may be waiting: continue at once
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
  is_answered_ = true;
  auto& box = found->second;
  if (const auto* ticket = std::get_if<granted>(&m)) {
    box.grant(*ticket);
    if (box.cancel_wanted)
      end(found->first, box);
  } else {
    auto taken = box.put(std::move(m), bytes);
    if (!taken && taken.error().code != errc::slow_reader)
      return taken;
    if (!taken) {
      box.ended = taken.error();
      end(found->first, box);
    }
    arrived_.notify_all();
  }
  if (box.is_forgotten && box.is_over())
    inboxes_.erase(found);
  return {};
}

void connection::disconnect() {
  std::lock_guard lock(mutex_);
  is_connected_ = false;
  queued_.clear();
}

void connection::lose(error why) {
  std::lock_guard lock(mutex_);
  is_connected_ = false;
  lost_ = std::move(why);
  arrived_.notify_all();
}

void connection::enqueue(message m) {
  if (!is_connected_)
    return;
  queued_.push_back(std::move(m));
  socket_->notify();
}

// A quarter of the window at a time: often enough that the server never waits for credit, rarely
// enough that credit is not half of the traffic.
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
  inboxes_[request] = inbox(question);
  enqueue(std::move(question));
  return request;
}

result<message> connection::take(std::uint64_t request, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  auto& box = inboxes_[request];
  arrived_.wait_for(lock, deadline, [&] { return lost_ || box.ended || !box.is_empty(); });
  if (auto first = box.take())
    return std::move(*first);
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
  end(request, found->second);
}

void connection::end(std::uint64_t request, inbox& box) {
  box.cancel_wanted = true;
  if (box.is_inference())
    enqueue(cancel_infer{request});
  else if (box.ticket)
    enqueue(cancel_of(box.ticket));
}

void connection::forget(std::uint64_t request) {
  std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(request);
  if (found == inboxes_.end())
    return;
  found->second.is_forgotten = true;
  if (found->second.is_over() || !found->second.cancel_wanted)
    inboxes_.erase(found);
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
