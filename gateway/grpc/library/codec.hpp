// The content of gRPC messages, without their protobuf types. Part of the gRPC library; pure.
#pragma once

#include "gateway/grpc/grpc_wire.hpp"

namespace baton::gateway {

const grpc_codec& protobuf_codec();

} // namespace baton::gateway
