#include "sdk/cpp/worker_link.hpp"

#include "schema/limits.hpp"

#include <unistd.h>

#include <algorithm>

namespace baton::sdk {
namespace {

constexpr actor_id worker_actor{8};
constexpr std::chrono::milliseconds heartbeat_interval{1'000};
constexpr std::chrono::milliseconds silence_max{5'000};
constexpr std::chrono::milliseconds poll_interval{250};
// Pause between two attempts to connect; it doubles. Well below the root's startup timeout for a
// worker.
constexpr std::chrono::milliseconds connect_retry_min{50};
constexpr std::chrono::milliseconds connect_retry_max{500};
// After a link that was open for this long the pauses begin anew.
constexpr std::chrono::milliseconds steady_min{5000};
// Estimated size of a message without its texts and tensors; corrected after encoding.
constexpr std::uint64_t head_bytes = 128;

error link_down(std::string_view why) {
  return fail(errc::link_down, "{}", why);
}

} // namespace

worker_link::worker_link(link_settings settings)
    : settings_(std::move(settings)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

worker_link::~worker_link() {
  thread_.request_stop();
  socket_.notify();
}

result<std::optional<linked_batch>> worker_link::next_batch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !batches_.empty() || lost_ || is_released_; });
  if (batches_.empty()) {
    if (lost_)
      return *lost_;
    return std::optional<linked_batch>{};
  }
  auto batch = std::move(batches_.front());
  batches_.pop_front();
  std::erase_if(cancelled_, [&](std::uint64_t request) { // those of earlier batches
    return std::none_of(batch.items.begin(), batch.items.end(),
                        [&](const infer& item) { return item.request == request; });
  });
  return std::optional(std::move(batch));
}

bool worker_link::is_cancelled(std::uint64_t connection_number, std::uint64_t request) {
  const std::lock_guard lock(mutex_);
  return connection_number != connection_number_ || cancelled_.contains(request);
}

bool worker_link::put(std::uint64_t connection_number, inferred piece) {
  const auto bytes = bytes_of(piece) + head_bytes;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return connection_number != connection_number_ || sent_bytes_ <= credited_bytes_ ||
             sent_bytes_ - credited_bytes_ + bytes <= window_bytes_;
    });
    if (connection_number != connection_number_ || !is_open_)
      return false;
    sent_bytes_ += bytes;
    queued_.push_back({std::move(piece), bytes});
  }
  socket_.notify();
  return true;
}

void worker_link::leave() {
  {
    const std::lock_guard lock(mutex_);
    is_leaving_ = true;
  }
  changed_.notify_all();
  socket_.notify();
}

void worker_link::run(const std::stop_token& stop) {
  auto pause = connect_retry_min;
  while (!stop.stop_requested()) {
    result<void> how = link_down("not connected");
    try {
      socket_.connect(settings_.endpoint, limits::body_bytes_max + limits::packet_extra_bytes_max);
      how = serve(stop);
    } catch (const zmq::error_t& e) {
      how = link_down(e.what());
    }
    if (was_steady())
      pause = connect_retry_min;
    if (judge(how))
      return;
    socket_.pause(pause);
    pause = std::min(2 * pause, connect_retry_max);
  }
}

bool worker_link::was_steady() {
  const std::lock_guard lock(mutex_);
  return is_open_ && std::chrono::steady_clock::now() - opened_at_ >= steady_min;
}

bool worker_link::judge(const result<void>& how) {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
  ++connection_number_;
  batches_.clear();
  cancelled_.clear();
  queued_.clear();
  if (is_leaving_ || how)
    is_released_ = true;
  else if (!row_of(how.error().code).retryable || how.error().code == errc::stale_epoch)
    lost_ = how.error(); // stale: another incarnation has replaced this process
  changed_.notify_all();
  return is_released_ || lost_;
}

std::optional<std::uint64_t> worker_link::send(const message& m) {
  envelope e;
  e.source = settings_.process;
  e.source_incarnation = settings_.incarnation;
  e.target = server_;
  e.target_incarnation = server_incarnation_;
  e.source_actor = worker_actor;
  e.target_actor = server_actor;
  e.sequence = sequence_out_ + 1;
  const auto made = encode(e, m);
  if (!socket_.send(made))
    return std::nullopt;
  ++sequence_out_;
  return made.size_bytes();
}

result<void> worker_link::serve(const std::stop_token& stop) {
  server_ = {};
  server_incarnation_ = {};
  sequence_in_ = sequence_out_ = 0;
  hello us;
  us.process = settings_.process;
  us.incarnation = settings_.incarnation;
  us.role = role::worker;
  us.name = settings_.name;
  us.pid = ::getpid();
  send(us);
  auto received_at = clock::now();
  auto beat_at = received_at;
  heartbeat beat;
  while (!stop.stop_requested()) {
    bool is_open = false;
    bool is_released = false;
    {
      const std::lock_guard lock(mutex_);
      is_open = is_open_;
      is_released = is_released_ && queued_.empty();
      if (!is_open && is_leaving_)
        return link_down("it leaves before the gateway is there");
    }
    if (is_released)
      return {};
    if (is_open && clock::now() >= beat_at) {
      beat_at = clock::now() + heartbeat_interval;
      ++beat.count;
      send(beat);
    }
    const bool has_room = !is_open || send_queued();
    const auto ready = socket_.wait(poll_interval, !has_room);
    if (ready.readable) {
      received_at = clock::now();
      if (auto ok = receive_all(); !ok)
        return ok;
    }
    if (ready.disconnected)
      return link_down("the gateway closed the connection");
    if (clock::now() - received_at > silence_max)
      return link_down("the gateway fell silent");
  }
  return {};
}

// False: ZeroMQ has no room now.
bool worker_link::send_queued() {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (queued_.empty() && is_leaving_ && !std::exchange(has_sent_drain_, true))
      queued_.push_back({drain{}, 0});
    if (queued_.empty())
      return true;
    auto next = std::move(queued_.front());
    queued_.pop_front();
    lock.unlock();
    const auto bytes = send(next.m);
    lock.lock();
    if (!bytes) {
      queued_.push_front(std::move(next));
      return false;
    }
    if (next.bytes > 0) // it is data
      sent_bytes_ += *bytes - next.bytes;
  }
}

result<void> worker_link::receive_all() {
  for (;;) {
    auto f = socket_.receive();
    if (!f)
      return f.error();
    if (!*f)
      return {};
    const auto head = decode_envelope((*f)->head);
    if (!head)
      return head.error();
    if (head->sequence != ++sequence_in_)
      return link_down("a message of the gateway is missing");
    auto body = decode_body(*head, (*f)->body, (*f)->bulk);
    if (!body)
      return body.error();
    if (auto ok = take(*head, *std::move(body)); !ok)
      return ok;
  }
}

result<void> worker_link::take(const envelope&, message m) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto* ack = std::get_if<hello_ack>(&m)) {
      if (ack->refused)
        return *ack->refused;
      server_ = ack->process;
      server_incarnation_ = ack->incarnation;
      window_bytes_ = ack->credit_bytes;
      sent_bytes_ = credited_bytes_ = 0;
      is_open_ = true;
      opened_at_ = std::chrono::steady_clock::now();
      has_sent_drain_ = false;
    } else if (auto* batch = std::get_if<infer_batch>(&m)) {
      batches_.push_back({connection_number_, std::move(batch->items)});
    } else if (const auto* gone = std::get_if<cancel_infer>(&m)) {
      cancelled_.insert(gone->request);
    } else if (const auto* c = std::get_if<credit>(&m)) {
      credited_bytes_ = c->bytes_total;
    } else if (std::holds_alternative<drain>(m)) {
      is_released_ = true;
    }
  }
  changed_.notify_all();
  return {};
}

} // namespace baton::sdk
