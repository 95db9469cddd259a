// The exception boundary around one request. An exception inside it fails this request alone: it is
// logged, the client gets `internal`, and the server continues. Errors are values elsewhere, so an
// exception is a bug of this program or of a library, or out of memory.
#pragma once

#include "schema/result.hpp"

#include <optional>
#include <string_view>
#include <utility>

namespace baton::gateway {

// Requires: an exception is being handled. Logs it and returns the error for the client.
// `protocol`: "http" ...
error fault_here(std::string_view protocol) noexcept;

// Empty if `work` ends without an exception.
template <class Work>
std::optional<error> guarded(std::string_view protocol, Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (...) {
    return fault_here(protocol);
  }
}

} // namespace baton::gateway
