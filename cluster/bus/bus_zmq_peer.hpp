// Our connection to one peer: what sends, and what tells how the connection fares. Included by
// bus_zmq*.cpp alone.
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
  stands,
  fell,
  refused,         // who listens does not trust our key
  handshake_failed // nor said why: another key or protocol than theirs, or nobody
};

// `out` is touched under `mutex` only, `monitor` by the bus thread only (and by the last owner, who
// closes both).
struct peer_socket {
  node_id node;
  std::uint64_t number = 0; // of all that this bus has made
  keyed_endpoint to;
  std::string own_key; // public, of the pair that it connects with
  zmq::socket_t out;
  zmq::socket_t monitor;
  std::mutex mutex;
  std::atomic<bool> is_up = false;
  int failed = 0; // handshakes in a row

  ~peer_socket();
  // Connects no more.
  void give_up();
  // What the monitor was told next, if there is more.
  std::optional<connection_event> next_event();
};

// False: not taken now, and `m` is unchanged. A signal does not count.
bool try_send(zmq::socket_t& to, zmq::message_t& m);
// ZeroMQ looks at what its threads told it at most once a millisecond when sending, and refuses
// meanwhile; asking for events makes it look.
bool has_room_now(zmq::socket_t& s);
// Of every socket of a bus.
void set_bounds(zmq::socket_t& s, const bus_zmq_options& options);
// Connects. Errors: bad_config, io_failed.
result<std::shared_ptr<peer_socket>> open_peer(zmq::context_t& context,
                                               const bus_zmq_options& options, const key_pair& own,
                                               node_id node, std::uint64_t number,
                                               const std::string& endpoint);

} // namespace baton::cluster
