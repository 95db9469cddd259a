// The interface to the network: sends frames to a peer, receives frames from any peer, reports
// connection events. It moves bytes only; link.hpp and message_router.hpp interpret them.
// Implementations: bus_zmq, and sim_network in tests.
#pragma once

#include "schema/codec/codec.hpp"
#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <functional>
#include <string>

namespace baton::cluster {

enum class sent : std::uint8_t {
  ok,
  back_pressure, // not taken, the peer or the connection is full: try again later
  down,          // not taken, the peer is not reachable now
  unknown_peer,  // not taken, no endpoint is known for this process
  too_large,     // not taken, above the size limit of a message
};
std::string_view name_of(sent s) noexcept;

// Per process: every machine of a large cluster, and as many clients.
inline constexpr std::size_t peers_max = 4096;

// Called from one thread at a time, in order per peer, never while a lock of the bus is held.
struct bus_events {
  std::function<void(frames&&)> received;
  std::function<void(process_id)> connected; // our connection to this peer is up: send now
  std::function<void(process_id, std::string why)> disconnected; // ours to this peer was lost
  // Called after each batch of events, on the same thread. Returns whether to call it again at
  // once. May be empty.
  std::function<bool()> round_over = {};
};

// Connections are one-way. `connect` opens ours to a peer, for sending; messages arrive over the
// peers' connections to our bound endpoint. Thread-safe.
class bus {
public:
  virtual ~bus() = default;
  // Returns the endpoint under which others reach it ("tcp://127.0.0.1:*" becomes a port). Errors:
  // bad_config, address_in_use, io_failed.
  virtual result<std::string> bind(const std::string& endpoint) = 0;
  // Replaces an older connection to this peer. Retries until `disconnect`. Errors: bad_config.
  virtual result<void> connect(process_id peer, const std::string& endpoint) = 0;
  virtual void disconnect(process_id peer) = 0;
  // Never blocks, and keeps no reference unless it returns ok. An accepted message may still be
  // lost with the connection, but then everything after it is lost too.
  virtual sent send(process_id peer, const frames& f) = 0;
  virtual void start(bus_events events) = 0;
  // No event follows after it returns. Must not be called from within an event.
  virtual void stop() = 0;
};

} // namespace baton::cluster
