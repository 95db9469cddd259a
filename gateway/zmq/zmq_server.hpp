// The server for SDK clients: a ROUTER socket on its own thread (docs/reference/protocol.md).
// ZeroMQ types stay out of this header.
#pragma once

#include "gateway/admission/admission.hpp"

#include <memory>
#include <string>

namespace baton::gateway {

class zmq_server {
public:
  // Binds config().zmq, ipc:// or tcp:// on loopback: nothing is encrypted here.
  // Errors: bad_config, address_in_use, io_failed.
  static result<std::unique_ptr<zmq_server>> start(const request_router_actor& router,
                                                   std::shared_ptr<gateway_state> facts);
  ~zmq_server(); // stops

  std::string endpoint() const; // with the actual port
  // Ends all requests and the thread.
  void stop();

  struct wall; // hides the library's types
  explicit zmq_server(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
