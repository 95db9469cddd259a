// The gRPC methods that this gateway answers, who may call them, and their message types. Pure.
#pragma once

#include "gateway/request/route.hpp"

#include <span>
#include <string_view>

namespace baton::gateway {

// Each has its own address, except health, which is served at all of them.
enum class grpc_service : std::uint8_t {
  kserve,
  torchserve_inference,
  torchserve_management,
  health
};

enum class grpc_shape : std::uint8_t {
  unary,         // one message each way
  server_stream, // one request, several responses
  both_streams   // several requests, each with several responses
};

struct grpc_method {
  grpc_service service;
  std::string_view name;
  route_access access;
  std::string_view asks, answers; // message types handled as JSON; empty: others
  grpc_shape shape = grpc_shape::unary;
  std::string_view instead{}; // the reason for UNIMPLEMENTED; empty: implemented
};

std::span<const grpc_method> grpc_methods() noexcept;
// "inference.GRPCInferenceService"
std::string_view name_of(grpc_service service) noexcept;
// `path`: "/package.Service/Method". Null: no such method at the address of `service`.
const grpc_method* find_grpc_method(grpc_service service, std::string_view path) noexcept;

} // namespace baton::gateway
