// What a request says of its place in the queue of a worker model: KServe's parameters `priority`
// and `timeout`. The only place that knows their names.
#pragma once

#include "runtime/schedule/worker_queue.hpp"
#include "schema/inference.hpp"

namespace baton::gateway {

// Fills in `priority` and `queue_timeout` of `into`. Only a model with priority levels has a
// `priority`, only one that allows it a `timeout` (microseconds); elsewhere both are the handler's,
// as any other parameter. Errors: invalid_value (no whole number, or beyond what there is).
result<void> read_queue_parameters(const infer& request, const schedule::worker_limits& limits,
                                   schedule::worker_queue::asked& into);

} // namespace baton::gateway
