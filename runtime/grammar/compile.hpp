// From a constraint, as a request says it, to its grammar. Called by the gateway, which refuses
// what cannot be one, and by the last stage. Pure.
#pragma once

#include "runtime/grammar/graph.hpp"
#include "schema/constraint.hpp"
#include "schema/result.hpp"

#include <memory>

namespace baton::grammar {

// Errors: invalid_value, unsupported_parameter (a keyword of JSON schema or a construct of regular
// expressions that is not supported, by name).
result<std::shared_ptr<const graph>> compile(const constraint& c);

} // namespace baton::grammar
