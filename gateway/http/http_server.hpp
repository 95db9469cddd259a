// The HTTP(S) and WebSocket listeners of one gateway: accepts, limits the number of connections,
// runs the io threads. Beast and Asio stay behind `wall`.
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
  // Whether start would get as far as binding. Errors: those of start, except those of binding.
  static result<void> check(const gateway_config& config);
  // Whether all addresses of the configuration are free, those of gRPC too. Gateways that share one
  // would join a foreign process that shares it as well; others would fail only once they start.
  // Errors: address_in_use, io_failed; `param` is the key of the configuration.
  static result<void> check_free(const gateway_config& config);
  // Valid settings that are probably a mistake: keys that cross a network in clear, a certificate
  // that has expired or soon will. Requires: check has no error.
  struct remark {
    std::string what;
    std::string fix;
  };
  static std::vector<remark> remarks(const gateway_config& config,
                                     std::chrono::system_clock::time_point now);
  // Binds config().http, its admin, ollama and torchserve, and serves at once. Errors:
  // bad_config (not an address, or one that too many can reach), address_in_use, io_failed; each
  // names the address.
  static result<std::unique_ptr<http_server>> start(const request_router_actor& router,
                                                    std::shared_ptr<gateway_state> facts);
  ~http_server(); // stops

  // With the actual port; empty: there is no such listener.
  std::string url(listener_kind kind) const;
  // Reads the certificate and its key again, for new connections. Errors: as tls_context::load;
  // then the old certificate stays. Any thread.
  result<void> reload_certificate();
  // Refuses new connections, cuts open ones, cancels their tickets. Returns when all have ended.
  void stop();

  struct wall; // holds the types of Asio
  explicit http_server(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
