// The way of messages to one SDK client: envelopes, sequence numbers and the client's credit.
#pragma once

#include "gateway/config/config.hpp"
#include "schema/codec/codec.hpp"

#include <cstdint>
#include <functional>

namespace baton::gateway {

class zmq_link {
public:
  // `send` sends one message; false if the client is unreachable or does not read.
  zmq_link(const gateway_config& config, hello peer, std::function<bool(const frames&)> send);

  const hello& peer() const noexcept { return peer_; } // without its API key
  // A message was not sent: drop the client.
  bool is_lost() const noexcept { return is_lost_; }

  void send(const message& m, std::uint64_t correlation);
  void acknowledge();
  void beat();

  // Credit is checked before a message is built, so one message may exceed the window.
  bool has_credit() const noexcept;
  // False: the total is below the last one, or above what was sent.
  bool take(const credit& m);

private:
  const gateway_config& config_;
  hello peer_;
  std::function<bool(const frames&)> send_;
  std::uint64_t sequence_ = 0;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t credited_bytes_ = 0;
  std::uint64_t beats_ = 0;
  bool is_lost_ = false;
};

} // namespace baton::gateway
