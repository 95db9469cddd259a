// The DEALER of a connection, as whole messages; the only file of the SDK that knows ZeroMQ.
#pragma once

#include "schema/codec.hpp"
#include "schema/limits.hpp"

#include <zmq.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace baton::sdk {

// The same in every process of its role (actors/interfaces.hpp, well_known).
inline constexpr actor_id door_actor{7};

class door_socket {
public:
  door_socket();
  ~door_socket();
  door_socket(const door_socket&) = delete;
  door_socket& operator=(const door_socket&) = delete;

  // Another socket in place of the last one: what that had to say is dropped. Messages of more than
  // `bytes_max` are not taken. Throws zmq::error_t.
  void connect(const std::string& endpoint, std::size_t bytes_max = limits::client_body_bytes_max +
                                                                    limits::packet_extra_bytes_max);

  // Whether the door can be heard, within `timeout`. Clears the wake-up.
  struct readiness {
    bool readable = false;
    bool disconnected = false;
  };
  readiness wait(std::chrono::milliseconds timeout, bool for_room);
  // Waits for the wake-up alone, and clears it.
  void pause(std::chrono::milliseconds timeout);
  void notify() const; // wakes the thread that waits; may be called by any

  // False: ZeroMQ has no room now.
  bool send(const frames& made);
  // Nothing: no message waits. Errors: bad_frame.
  result<std::optional<frames>> receive();

private:
  zmq::context_t context_{1};
  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  int connects_ = 0;
  int wake_; // eventfd
};

} // namespace baton::sdk
