// The bus over ZeroMQ. One ROUTER receives, owned by one thread; one DEALER a peer sends, used by
// whoever sends under that peer's mutex (no hop, and back-pressure is a return value). cppzmq and
// its exceptions stay in bus_zmq.cpp.
#pragma once

#include "cluster/bus/bus.hpp"
#include "cluster/config/curve_key.hpp"
#include "schema/limits.hpp"

#include <chrono>
#include <memory>

namespace baton::cluster {

// Set: what we listen on takes connections of trusted keys only, all of them encrypted, and says
// our public key in its endpoint. Where we connect to, the endpoint says whether and with which
// key.
struct curve_keys {
  key_pair own; // at first; then bus_zmq::use_key
  std::shared_ptr<const trusted_keys> trusted;

  bool is_set() const noexcept { return trusted != nullptr; }
};

// A new pair. For `cluster keygen`.
key_pair make_key_pair();

struct bus_zmq_options {
  // Messages, not bytes: credit bounds the bytes of data, this the rest.
  int messages_queued_max = 1000;
  // Of one packet: what is larger disconnects its sender.
  std::size_t packet_bytes_max = limits::packet_bytes_max;
  // Of the transport, answered by its own threads: they find a dead host, link heartbeats find a
  // dead process. Short ones disconnect healthy peers under load.
  std::chrono::milliseconds heartbeat_interval{1000};
  std::chrono::milliseconds heartbeat_timeout{4000};
  std::chrono::milliseconds handshake_timeout{3000};
  // Then it is tried anew. The system would ask a machine that is gone ever more rarely, at last
  // once a minute, and as late notice that it is back.
  std::chrono::milliseconds connect_timeout{3000};
  // A survivor that must connect again does so at once; where nobody comes back it tires.
  std::chrono::milliseconds reconnect_interval{1};
  std::chrono::milliseconds reconnect_interval_max{64};
  curve_keys curve; // empty: ipc and loopback only
};

struct bus_zmq_counters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t bad_frames = 0; // not one packet
  std::uint64_t back_pressure = 0;
  std::uint64_t connects = 0; // handshakes done
  std::uint64_t disconnects = 0;
  std::uint64_t handshakes_failed = 0; // a wrong key, or not our protocol
  std::uint64_t strangers = 0;         // that wanted in without a trusted key, or have lost it
};

class bus_zmq final : public bus {
public:
  explicit bus_zmq(bus_zmq_options options);
  ~bus_zmq() override;

  result<std::string> bind(const std::string& endpoint) override;
  result<void> connect(node_id peer, const std::string& endpoint) override;
  void disconnect(node_id peer) override;
  sent send(node_id peer, const frames& f) override;
  void start(bus_events events) override;
  void stop() override;
  // From soon on connects and listens with this one. Peers connect anew, for which they have to
  // trust it. Requires: options.curve is set.
  void use_key(const key_pair& own);
  // Public; that with which it listens.
  std::string key_in_use() const;
  bus_zmq_counters counters() const;

private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace baton::cluster
