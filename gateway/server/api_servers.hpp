// All API servers of one gateway process, and the exporter of their traces. HTTP with SSE and
// WebSocket always runs, ZeroMQ and gRPC if configured. `cluster/` starts them after the router and
// its clients:
//
//   auto facts = std::make_shared<gateway::gateway_state>(config);
//   auto [router, clients] = gateway::spawn_request_router(system, facts, heads);
//   auto servers = gateway::api_servers::start(system, facts, router);
//   ... later: (*servers)->stop(), then the actors.
//
// To drain: send each pipeline client `drain`; new requests are refused and
// facts->requests_open() falls to 0.
#pragma once

#include "gateway/dispatch/pipeline_client.hpp"
#include "gateway/grpc/grpc_methods.hpp"
#include "gateway/request/http_call.hpp"
#include "gateway/state/gateway_state.hpp"
#include "schema/result.hpp"

#include <memory>
#include <string>

namespace baton::gateway {

class grpc_api_server;
class http_server;
class span_exporter;
class zmq_server;

class api_servers {
public:
  // Requires: the system of the request router outlives the servers. Errors: bad_config,
  // address_in_use, io_failed; each names the address.
  static result<std::unique_ptr<api_servers>> start(caf::actor_system& system,
                                                    std::shared_ptr<gateway_state> facts,
                                                    request_router_actor router);
  ~api_servers(); // stops

  std::string url() const;
  std::string admin_url() const;                        // empty: not configured
  std::string url(listener_kind listener) const;        // of any listener
  std::string zmq_endpoint() const;                     // empty: not configured
  std::string grpc_address(grpc_service service) const; // empty: not configured
  // As http_server's. The gRPC servers keep the certificate that they started with.
  result<void> reload_certificate();
  // Closes open connections and cancels their tickets. Returns when all threads have ended and the
  // traces are sent, or the time for them is up. Idempotent.
  void stop();

  // Takes servers that run already; use start().
  api_servers(std::unique_ptr<http_server> http, std::unique_ptr<zmq_server> zmq,
              std::unique_ptr<grpc_api_server> grpc, std::unique_ptr<span_exporter> exporter);

private:
  std::unique_ptr<http_server> http_;
  std::unique_ptr<zmq_server> zmq_;
  std::unique_ptr<grpc_api_server> grpc_;
  std::unique_ptr<span_exporter> exporter_; // null: tracing is off
};

} // namespace baton::gateway
