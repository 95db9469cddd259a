// Finds and opens the library for gRPC, door_grpc.so.
#pragma once

#include "gateway/grpc/grpc_wire.hpp"
#include "schema/result.hpp"

namespace baton::gateway {

// Checks that the library exists. Errors: not_found.
result<void> find_grpc();
// Searches plugin::library_folders() of $BATON_DOORS and `doors`. The library is never closed.
// Errors: not_found (lists the folders), start_failed (why it cannot be loaded),
// version_mismatch.
result<grpc_library*> load_grpc();

} // namespace baton::gateway
