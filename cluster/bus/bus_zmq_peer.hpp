// Our connection to one peer: its sending socket and its monitor. Included by bus_zmq*.cpp only.
#pragma once

#include "cluster/bus/bus_zmq.hpp"

#include <zmq.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace baton::cluster {

enum class connection_event : std::uint8_t {
  connected,
  disconnected,
  refused,         // the listener does not trust our key
  handshake_failed // no reason given: wrong key or protocol, or no listener
};

// `out` is used under `mutex` only, `monitor` by the bus thread only (and by the last owner, which
// closes both).
struct peer_socket {
  process_id process;
  std::uint64_t number = 0; // unique within this bus
  keyed_endpoint to;
  std::string own_key; // public, of the pair in use
  zmq::socket_t out;
  zmq::socket_t monitor;
  std::mutex mutex;
  std::atomic<bool> is_up = false;
  int failed = 0; // consecutive handshakes

  ~peer_socket();
  // Stops connecting.
  void give_up();
  // The next event of the monitor, if there is one.
  std::optional<connection_event> next_event();
};

// Returns false if `m` is not taken now; `m` is unchanged. Retries after signals.
bool try_send(zmq::socket_t& to, zmq::message_t& m);
// When sending, ZeroMQ processes commands of its threads at most once a millisecond and refuses
// meanwhile. Querying ZMQ_EVENTS makes it process them.
bool has_room_now(zmq::socket_t& s);
// Applies to every socket of a bus.
void set_bounds(zmq::socket_t& s, const bus_zmq_options& options);
// Connects. Errors: bad_config, io_failed.
result<std::shared_ptr<peer_socket>> open_peer(zmq::context_t& context,
                                               const bus_zmq_options& options, const key_pair& own,
                                               process_id process, std::uint64_t number,
                                               const std::string& endpoint);

} // namespace baton::cluster
