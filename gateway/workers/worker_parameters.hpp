// A request's parameters for the queue of a worker model: KServe's `priority` and `timeout`. Only
// this file knows their names.
#pragma once

#include "runtime/schedule/workers/worker_queue.hpp"
#include "schema/inference.hpp"

namespace baton::gateway {

// Fills in `priority` and `queue_timeout` of `into`. Only a model with priority levels has a
// `priority`, and only one that allows it a `timeout` (microseconds). Otherwise they are ordinary
// parameters for the handler. Errors: invalid_value (not a whole number, or out of range).
result<void> read_queue_parameters(const infer& request, const schedule::worker_limits& limits,
                                   schedule::worker_queue::new_request& into);

} // namespace baton::gateway
