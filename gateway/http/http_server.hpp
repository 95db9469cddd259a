// The HTTP(S) and WebSocket listeners of one gateway: accepts, bounds the number of connections,
// runs the io threads. Beast and Asio stay behind the wall.
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/routes/http_api.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace baton::gateway {

class http_server {
public:
  // Whether start could go as far as to bind. Errors: its own, but for those of binding.
  static result<void> check(const gateway_config& config);
  // Whether nobody listens at any address of config(), those of gRPC among them. Gateways that
  // share one would join a stranger that shares it as well; any other would find out only once it
  // starts. Errors: address_in_use, io_failed; `param` is the key of the configuration.
  static result<void> check_free(const gateway_config& config);
  // What it would do as it is told, and hardly anybody means: keys that cross a network in clear, a
  // certificate that has ended or soon will. Requires: check is content.
  struct remark {
    std::string what;
    std::string fix;
  };
  static std::vector<remark> remarks(const gateway_config& config,
                                     std::chrono::system_clock::time_point now);
  // Binds config().http, config().admin and config().torchserve and serves at once. Errors:
  // bad_config (not an address, or one that more can reach than may), address_in_use, io_failed;
  // each names the address.
  static result<std::unique_ptr<http_server>> start(const request_router_actor& router,
                                                    std::shared_ptr<gateway_state> facts);
  ~http_server(); // stops

  // With the port that was taken; empty: no such door.
  std::string url(listener_kind kind) const;
  // Reads the certificate and its key again, for connections to come. Errors: as
  // tls_context::load; then all stays as it is. Any thread.
  result<void> reload_certificate();
  // No new connections; open ones are cut, their tickets cancelled. Returns when all have ended.
  void stop();

  struct wall; // all that the library's types are in
  explicit http_server(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
