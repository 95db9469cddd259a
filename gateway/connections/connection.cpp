#include "gateway/connections/connection.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace baton::gateway {

bell::bell(asio::any_io_executor strand) : strand_(std::move(strand)), timer_(strand_) {}

void bell::ring() {
  if (is_rung_.exchange(true)) {
    return; // a wake-up is on its way
  }
  asio::post(strand_, [self = shared_from_this()] {
    self->timer_.cancel();
    if (self->on_ring_) {
      self->on_ring_();
    }
  });
}

asio::awaitable<void> bell::wait(std::chrono::milliseconds limit) {
  if (is_rung_.exchange(false)) {
    co_return;
  }
  // A ring from here on posts its cancel behind us on the strand, so none is lost.
  timer_.expires_after(limit);
  co_await timer_.async_wait(as_values);
  is_rung_.exchange(false);
}

watchdog::watchdog(const asio::any_io_executor& strand, std::function<void()> on_expiry)
    : timer_(strand), on_expiry_(std::move(on_expiry)) {}

void watchdog::arm(std::chrono::milliseconds limit) {
  has_expired_ = false;
  const auto round = ++round_;
  timer_.expires_after(limit);
  timer_.async_wait([self = shared_from_this(), round](error_code ec) {
    if (!ec && self->round_ == round && self->on_expiry_) {
      self->has_expired_ = true;
      self->on_expiry_();
    }
  });
}

void watchdog::disarm() {
  ++round_;
  timer_.cancel();
}

void watchdog::retire() {
  disarm();
  on_expiry_ = nullptr;
}

std::optional<std::uint64_t> connection_table::enter(std::function<void()> stop,
                                                     std::size_t connections_max) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_ || stops_.size() >= connections_max) {
    return std::nullopt;
  }
  stops_.emplace(++last_id_, std::move(stop));
  return last_id_;
}

void connection_table::replace(std::uint64_t id, std::function<void()> stop) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = stops_.find(id); it != stops_.end()) {
      it->second = std::move(stop);
      return;
    }
  }
  stop(); // the server stopped after the caller took its id
}

void connection_table::leave(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  stops_.erase(id);
}

void connection_table::stop_all() {
  std::map<std::uint64_t, std::function<void()>> stops;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    stops.swap(stops_);
  }
  // Without the lock: this may destroy a session, and its destructor calls leave().
  for (auto& [id, stop] : stops) {
    stop();
  }
}

} // namespace baton::gateway
