// The seam to the network: frames to a peer and from anyone, and facts about connections. Bytes
// only: what they mean is link.hpp's and exchange.hpp's business. It is a
// bus_zmq, in tests a sim_network.
#pragma once

#include "schema/codec.hpp"
#include "schema/ids.hpp"
#include "schema/result.hpp"

#include <functional>
#include <string>

namespace baton::cluster {

enum class sent : std::uint8_t {
  ok,
  back_pressure, // not taken, the peer or the road is full: try again later
  down,          // not taken, the peer cannot be reached now
  unknown_peer,  // not taken, nobody said where this node is
  too_large,     // not taken, above the bound of a message
};
std::string_view name_of(sent s) noexcept;

// Of one process: every machine of a large cluster, and as many clients.
inline constexpr std::size_t peers_max = 4096;

// Called from one thread at a time, in order per peer, never with a lock of the bus held.
struct bus_events {
  std::function<void(frames&&)> received;
  std::function<void(node_id)> connected; // our connection to this peer stands: send now
  std::function<void(node_id, std::string why)> disconnected; // ours to this peer fell
  // Behind each run of events, from the thread that they came from. Whether to call it again at
  // once. Empty: nobody asks.
  std::function<bool()> turn_over = {};
};

// Connections are one-way: `connect` makes ours to a peer, on which we send; what we receive comes
// over the peers' connections to our bound endpoint. Any thread may call anything.
class bus {
public:
  virtual ~bus() = default;
  // Returns the endpoint as others must name it ("tcp://127.0.0.1:*" becomes a port).
  // Errors: bad_config, address_in_use, io_failed.
  virtual result<std::string> bind(const std::string& endpoint) = 0;
  // Replaces an older connection to this peer. Keeps trying until `disconnect`. Errors: bad_config.
  virtual result<void> connect(node_id peer, const std::string& endpoint) = 0;
  virtual void disconnect(node_id peer) = 0;
  // Never blocks, never keeps a reference when it does not return ok. What is `ok` may still be
  // lost with the connection, and then only with everything after it.
  virtual sent send(node_id peer, const frames& f) = 0;
  virtual void start(bus_events events) = 0;
  // No event comes after it has returned. Not from within an event.
  virtual void stop() = 0;
};

} // namespace baton::cluster
