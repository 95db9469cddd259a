// gRPC's health checking protocol (grpc.health.v1), at every gRPC address: the server and the
// service of the address to whoever asks, models to whoever may use them. Pure but for the board.
#pragma once

#include "gateway/grpc/grpc_methods.hpp"
#include "gateway/grpc/grpc_wire.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

// Of the protocol, with its names.
enum class health_status : std::uint8_t { serving, not_serving, service_unknown };

// `name`: empty, a service's full name, or a model's. `door`: at whose address it is asked.
health_status health_of(grpc_service door, const caller& who, std::string_view name, board& facts);
// A HealthCheckResponse.
std::string health_message(health_status now, const grpc_codec& codec);
// Which service a HealthCheckRequest names. Errors: invalid_request.
result<std::string> health_question(std::string_view message, const grpc_codec& codec);
// Of Check and List, whole. Errors: invalid_request; not_found (Check alone).
result<std::string> answer_health(const grpc_method& method, grpc_service door, const caller& who,
                                  std::string_view message, const grpc_codec& codec, board& facts);

} // namespace baton::gateway
