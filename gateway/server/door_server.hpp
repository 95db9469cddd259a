// All doors of one gateway process: HTTP with SSE and WebSocket, ZeroMQ and gRPC if configured; and
// the way out for the traces of what comes through them. Started by cluster/ after the front and
// its desks:
//
//   auto facts = std::make_shared<gateway::board>(config);
//   auto [front, desks] = gateway::spawn_front(system, facts, heads);
//   auto doors = gateway::door_server::start(system, facts, front);
//   ... later: (*doors)->stop(), then the actors.
//
// Draining: send a desk `drain`; new requests are refused, facts->requests_open() falls to 0.
#pragma once

#include "gateway/dispatch/desk.hpp"
#include "gateway/grpc/grpc_methods.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/state/board.hpp"
#include "schema/result.hpp"

#include <memory>
#include <string>

namespace baton::gateway {

class grpc_door;
class http_server;
class span_exporter;
class zmq_door;

class door_server {
public:
  // Requires: the system, in which the front lives, outlives the doors.
  // Errors: bad_config, address_in_use, io_failed; each names the address.
  static result<std::unique_ptr<door_server>>
  start(caf::actor_system& system, std::shared_ptr<board> facts, front_actor front);
  ~door_server(); // stops

  std::string url() const;
  std::string admin_url() const;                        // empty: no such door
  std::string url(door_kind door) const;                // the same
  std::string zmq_endpoint() const;                     // empty: no such door
  std::string grpc_address(grpc_service service) const; // empty: no such door
  // As http_server's. What gRPC's doors came up with stays: their library has read it.
  result<void> reload_certificate();
  // Cuts what is open and cancels its tickets. Returns when all threads have ended, and what was
  // traced is sent, or its time is up. Idempotent.
  void stop();

  // Of doors that were started; use start().
  door_server(std::unique_ptr<http_server> http, std::unique_ptr<zmq_door> zmq,
              std::unique_ptr<grpc_door> grpc, std::unique_ptr<span_exporter> exporter);

private:
  std::unique_ptr<http_server> http_;
  std::unique_ptr<zmq_door> zmq_;
  std::unique_ptr<grpc_door> grpc_;
  std::unique_ptr<span_exporter> exporter_; // none: nothing is traced
};

} // namespace baton::gateway
