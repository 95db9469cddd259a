// Finds and opens the library for gRPC, door_grpc.so.
#pragma once

#include "gateway/grpc/grpc_wire.hpp"
#include "schema/result.hpp"

namespace baton::gateway {

// Whether it is there. Errors: not_found.
result<void> find_grpc();
// It is looked for in $BATON_DOORS if that is set, else in the folder of this program and in
// `doors` beside it; never closed. Errors: not_found (names the folders), start_failed (why it
// cannot be loaded), version_mismatch.
result<grpc_library*> load_grpc();

} // namespace baton::gateway
