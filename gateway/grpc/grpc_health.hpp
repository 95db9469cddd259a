// gRPC's health checking protocol (grpc.health.v1), at every gRPC address. Any client may query the
// address's service, authorized clients also models. Pure except that it reads the gateway state.
#pragma once

#include "gateway/auth/authenticator.hpp"
#include "gateway/grpc/grpc_methods.hpp"
#include "gateway/grpc/grpc_wire.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

// The protocol's states, under its names.
enum class health_status : std::uint8_t { serving, not_serving, service_unknown };

// `name`: empty, a service's full name, or a model's. `service`: the service of the address.
health_status health_of(grpc_service service, const principal& who, std::string_view name,
                        gateway_state& facts);
// A HealthCheckResponse.
std::string health_message(health_status now, const grpc_codec& codec);
// The service that a HealthCheckRequest names. Errors: invalid_request.
result<std::string> health_question(std::string_view message, const grpc_codec& codec);
// The complete answer to Check and List. Errors: invalid_request; not_found (Check only).
result<std::string> answer_health(const grpc_method& method, grpc_service service,
                                  const principal& who, std::string_view message,
                                  const grpc_codec& codec, gateway_state& facts);

} // namespace baton::gateway
