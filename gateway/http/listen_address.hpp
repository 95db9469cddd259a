// The addresses of the configuration that a gateway listens on, read and checked before anything
// is bound. Heavy: Asio.
#pragma once

#include "gateway/config/config.hpp"
#include "gateway/connections/client_socket.hpp"
#include "gateway/request/http_call.hpp"
#include "schema/result.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

// One address of the configuration.
struct listen_address {
  listener_kind kind;
  const char* param; // its key of the configuration
  std::string text;
  tcp::endpoint endpoint;
  bool is_shared = false; // by gateways that share `http`
  bool is_grpc = false;   // grpc_api_server listens there
};

// The addresses to listen on, `http` first. Errors: bad_config (not an address, one that two of
// them name, or one that too many machines can reach); `param` is the key of the configuration.
result<std::vector<listen_address>> read_addresses(const gateway_config& config);

} // namespace baton::gateway
