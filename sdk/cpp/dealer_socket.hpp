// The DEALER of a connection, with whole messages; the only file of the SDK that uses ZeroMQ.
#pragma once

#include "schema/codec/codec.hpp"
#include "schema/limits.hpp"

#include <zmq.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace baton::sdk {

// The same in every process of its role (actors/interfaces.hpp, well_known).
inline constexpr actor_id server_actor{7};

class dealer_socket {
public:
  dealer_socket();
  ~dealer_socket();
  dealer_socket(const dealer_socket&) = delete;
  dealer_socket& operator=(const dealer_socket&) = delete;

  // Replaces the socket; unsent messages of the old one are dropped. Messages of more than
  // `bytes_max` are rejected. Throws zmq::error_t.
  void connect(const std::string& endpoint, std::size_t bytes_max = limits::client_body_bytes_max +
                                                                    limits::packet_extra_bytes_max);

  // Whether the socket is readable within `timeout`. Clears the wake-up.
  struct readiness {
    bool readable = false;
    bool disconnected = false;
  };
  readiness wait(std::chrono::milliseconds timeout, bool for_room);
  // Waits for a wake-up alone, and clears it.
  void pause(std::chrono::milliseconds timeout);
  void notify() const; // wakes the waiting thread; callable from any

  // False: ZeroMQ has no room now.
  bool send(const frames& made);
  // Nothing: no message is waiting. Errors: bad_frame.
  result<std::optional<frames>> receive();

private:
  zmq::context_t context_{1};
  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  int connects_ = 0;
  int wake_; // eventfd
};

} // namespace baton::sdk
