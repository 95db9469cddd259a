#include "gateway/zmq/zmq_link.hpp"

#include "actors/interfaces.hpp"

#include <utility>

namespace baton::gateway {

zmq_link::zmq_link(const gateway_config& config, hello peer,
                   std::function<bool(const frames&)> send)
    : config_(config), peer_(std::move(peer)), send_(std::move(send)) {
  peer_.api_key.clear();
}

void zmq_link::send(const message& m, std::uint64_t correlation) {
  if (is_lost_) {
    return;
  }
  envelope e;
  e.source = config_.self;
  e.source_incarnation = config_.incarnation;
  e.target = peer_.process;
  e.target_incarnation = peer_.incarnation;
  e.source_actor = actors::well_known::zmq_server;
  e.target_actor = actors::well_known::client;
  e.correlation = correlation;
  e.sequence = ++sequence_;
  const auto f = encode(e, m);
  if (needs_credit(kind_of(m))) {
    data_bytes_ += f.size_bytes();
  }
  is_lost_ = !send_(f);
}

void zmq_link::acknowledge() {
  hello_ack ack;
  ack.process = config_.self;
  ack.incarnation = config_.incarnation;
  ack.credit_bytes = config_.zmq_bounds.window_bytes;
  send(ack, 0);
}

void zmq_link::beat() {
  heartbeat h;
  h.count = ++beats_;
  send(h, 0);
}

bool zmq_link::has_credit() const noexcept {
  return data_bytes_ - credited_bytes_ < config_.zmq_bounds.window_bytes;
}

bool zmq_link::take(const credit& m) {
  if (m.bytes_total < credited_bytes_ || m.bytes_total > data_bytes_) {
    return false;
  }
  credited_bytes_ = m.bytes_total;
  return true;
}

} // namespace baton::gateway
