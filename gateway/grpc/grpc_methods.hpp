// The methods of gRPC that this gateway answers, who may call them, and what is in their messages.
// Pure.
#pragma once

#include "gateway/routes/http_api.hpp"

#include <span>
#include <string_view>

namespace baton::gateway {

// Each has an address of its own, but for health, which is at all of them.
enum class grpc_service : std::uint8_t {
  kserve,
  torchserve_inference,
  torchserve_management,
  health
};

enum class grpc_shape : std::uint8_t {
  unary,         // one message each way
  server_stream, // one there, several back
  both_streams   // several there, any of which has several back
};

struct grpc_method {
  grpc_service service;
  std::string_view name;
  route_access access;
  std::string_view asks, answers; // types of messages that are JSON here; empty: others
  grpc_shape shape = grpc_shape::unary;
  std::string_view instead{}; // why it is UNIMPLEMENTED; empty: it is not
};

std::span<const grpc_method> grpc_methods() noexcept;
// "inference.GRPCInferenceService"
std::string_view name_of(grpc_service service) noexcept;
// `path`: "/package.Service/Method". Null: there is none of that name at the address of `door`.
const grpc_method* find_grpc_method(grpc_service door, std::string_view path) noexcept;

} // namespace baton::gateway
