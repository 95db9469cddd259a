// What gRPC's messages say, without their protobuf. Part of the library for gRPC; pure.
#pragma once

#include "gateway/grpc/grpc_wire.hpp"

namespace baton::gateway {

const grpc_codec& protobuf_codec();

} // namespace baton::gateway
