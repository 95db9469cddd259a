// The boundary around the handling of one request: whatever is thrown inside of it is an error of
// this request alone. It is logged, the client is told `internal`, and the door goes on for all
// others. Errors are values elsewhere; what gets here is a fault of this program, of a library, or
// want of memory.
#pragma once

#include "schema/result.hpp"

#include <optional>
#include <string_view>
#include <utility>

namespace baton::gateway {

// Requires: an exception is being handled. Logs it and returns the error for the client. `door`:
// "http" ...
error fault_here(std::string_view door) noexcept;

// Nothing if `work` ends without an exception.
template <class Work>
std::optional<error> guarded(std::string_view door, Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (...) {
    return fault_here(door);
  }
}

} // namespace baton::gateway
