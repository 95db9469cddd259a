// The gRPC server of one gateway: loads the gRPC library, listens, and runs the thread that owns
// all calls. A process without gRPC does not load the library.
#pragma once

#include "gateway/admission/admission.hpp"
#include "gateway/grpc/grpc_methods.hpp"

#include <memory>
#include <string>

namespace baton::gateway {

bool has_grpc(const gateway_config& config) noexcept;

class grpc_api_server {
public:
  // Checks that the library exists. Errors: not_found (the library), if has_grpc.
  static result<void> check(const gateway_config& config);
  // Requires: has_grpc, and http_server::check accepts the addresses. Errors: not_found,
  // start_failed, version_mismatch (the library), address_in_use, bad_config (the certificate
  // cannot be read).
  static result<std::unique_ptr<grpc_api_server>> start(const request_router_actor& router,
                                                        std::shared_ptr<gateway_state> facts);
  ~grpc_api_server(); // stops

  // "127.0.0.1:8001"; empty: not configured.
  std::string address(grpc_service service) const;
  // Refuses new calls and cancels open ones with their tickets. Returns when all have ended.
  void stop();

  struct wall;
  explicit grpc_api_server(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
