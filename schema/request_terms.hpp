// The terms of a request: all that a client asks of an answer, whatever the form of its prompt.
// Nested in each message that carries the request, and in sequences of the scheduler; always copied
// whole.
#pragma once

#include "schema/sampling.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace baton {

struct request_terms {
#include "schema/members/request_terms.inc"
  friend bool operator==(const request_terms&, const request_terms&) = default;
};

} // namespace baton
