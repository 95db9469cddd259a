// How gRPC calls end: maps error codes to gRPC status codes, and HTTP's error headers to trailing
// metadata. Pure.
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

// A valid gRPC string: replaces invalid UTF-8, such as a client's name that was cut, and limits the
// length to that of a header.
std::string grpc_text(std::string_view message);

// Trailers: "baton-error" is the error's name. A retryable error adds "retry-after" in whole
// seconds, as in HTTP, and "grpc-retry-pushback-ms", which gRPC's own retries obey (gRFC A6).
grpc_status grpc_failure(errc code, std::string_view message,
                         std::chrono::milliseconds retry_after = {});

} // namespace baton::gateway
