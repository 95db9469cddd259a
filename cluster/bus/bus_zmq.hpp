// The bus over ZeroMQ. One ROUTER receives, owned by one thread; one DEALER per peer sends, used by
// any sender under that peer's mutex (no hop, and back-pressure is a return value). The
// exceptions of cppzmq stay in bus_zmq.cpp.
#pragma once

#include "cluster/bus/bus.hpp"
#include "cluster/keys/curve_key.hpp"
#include "schema/limits.hpp"

#include <chrono>
#include <memory>

namespace baton::cluster {

// If set, our endpoints accept only trusted keys over encrypted connections, and their addresses
// contain our public key. The address of a peer determines whether its connection is encrypted, and
// with which key.
struct curve_keys {
  key_pair own; // initially; see bus_zmq::use_key
  std::shared_ptr<const trusted_keys> trusted;

  bool is_set() const noexcept { return trusted != nullptr; }
};

// A new pair, for `cluster keygen`.
key_pair make_key_pair();

struct bus_zmq_options {
  // Messages, not bytes: credit limits the bytes of data, this limits everything else.
  int messages_queued_max = 1000;
  // A larger packet disconnects its sender.
  std::size_t packet_bytes_max = limits::packet_bytes_max;
  // ZeroMQ's own heartbeats, answered by its threads: they detect a dead host, link heartbeats
  // detect a dead process. Short ones disconnect healthy peers under load.
  std::chrono::milliseconds heartbeat_interval{1000};
  std::chrono::milliseconds heartbeat_timeout{4000};
  std::chrono::milliseconds handshake_timeout{3000};
  // After it, a new attempt starts. The kernel would retry ever more rarely, at last once a minute,
  // and notice that late that a machine is back.
  std::chrono::milliseconds connect_timeout{3000};
  // A restarted peer is reconnected at once; the interval grows while a peer is absent.
  std::chrono::milliseconds reconnect_interval{1};
  std::chrono::milliseconds reconnect_interval_max{64};
  curve_keys curve; // empty: ipc and loopback only
};

struct bus_zmq_counters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t bad_frames = 0; // not exactly one packet
  std::uint64_t back_pressure = 0;
  std::uint64_t connects = 0; // handshakes completed
  std::uint64_t disconnects = 0;
  std::uint64_t handshakes_failed = 0; // a wrong key, or not our protocol
  std::uint64_t strangers = 0;         // rejected: without a trusted key, or with a revoked one
};

class bus_zmq final : public bus {
public:
  explicit bus_zmq(bus_zmq_options options);
  ~bus_zmq() override;

  result<std::string> bind(const std::string& endpoint) override;
  result<void> connect(process_id peer, const std::string& endpoint) override;
  void disconnect(process_id peer) override;
  sent send(process_id peer, const frames& f) override;
  void start(bus_events events) override;
  void stop() override;
  // Soon connects and listens with this pair. Peers reconnect, for which they have to trust it.
  // Requires: options.curve is set.
  void use_key(const key_pair& own);
  // The public key with which it listens.
  std::string key_in_use() const;
  bus_zmq_counters counters() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace baton::cluster
