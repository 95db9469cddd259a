// How calls of gRPC end: errors of the table as its status codes, with what HTTP says in headers as
// trailing metadata. Pure.
#pragma once

#include "gateway/grpc/grpc_wire.hpp"
#include "schema/error.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace baton::gateway {

// https://grpc.github.io/grpc/core/md_doc_statuscodes.html
enum class grpc_code : std::uint8_t {
  ok = 0,
  cancelled = 1,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  unauthenticated = 16
};

grpc_code grpc_code_of(errc code) noexcept;

// A message as gRPC's own strings take it: UTF-8, whatever a client's name in it was cut to, and no
// longer than a header may be.
std::string grpc_text(std::string_view message);

// Trailers: "baton-error", the error's name; for what may be retried "retry-after" in whole seconds
// as HTTP's, and "grpc-retry-pushback-ms", by which gRPC's own retries wait (gRFC A6).
grpc_status grpc_failure(errc code, std::string_view message,
                         std::chrono::milliseconds retry_after = {});

} // namespace baton::gateway
