// Compiles a request's constraint to its grammar. Called by the gateway, which refuses invalid
// constraints, and by the last stage. Pure.
#pragma once

#include "runtime/grammar/automata/graph.hpp"
#include "schema/constraint.hpp"
#include "schema/result.hpp"

#include <memory>

namespace baton::grammar {

// Errors: invalid_value, unsupported_parameter (names the unsupported keyword of JSON schema or
// construct of regular expressions).
result<std::shared_ptr<const graph>> compile(const constraint& c);

} // namespace baton::grammar
