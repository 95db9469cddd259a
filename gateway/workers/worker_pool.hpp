// The actor between the servers and the workers of one model. It queues and batches requests
// (runtime/schedule/workers/worker_queue.hpp has the states), delivers pieces to their streams, and
// has hung workers ended. It never touches a socket: the worker server sends for it.
//
//   server --open_infer--> pool --infer_batch--> worker --inferred--> pool --> the stream
//   server --close_request--> pool --cancel_infer--> worker
//   pool --status(ready | failed)--> root, whose supervisor restarts failed workers
#pragma once

#include "gateway/base/streams.hpp"
#include "gateway/dispatch/pipeline_client.hpp"
#include "gateway/metrics/worker_load.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/workers/worker_reports.hpp"
#include "runtime/schedule/workers/worker_queue.hpp"

#include <caf/all.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace baton::gateway {

// Servers to pool, local only. `request.request` is that of the stream.
struct open_infer {
  std::shared_ptr<stream> out;
  infer request;
  std::shared_ptr<quota_lease> lease = nullptr;
  trace_handle trace = nullptr; // null: not traced
  bool goes_alone = false;      // in a batch of its own
};

// The worker server to the pool.
struct worker_greeted {
  worker_incarnation worker;
  std::uint64_t load_micros = 0; // 0: unknown
};
struct worker_replied {
  worker_incarnation worker;
  inferred piece;
};
struct worker_counted {
  worker_incarnation worker;
  std::vector<handler_metric> all;
};
struct worker_leaving { // it sent `drain`
  worker_incarnation worker;
};
struct worker_lost {
  worker_incarnation worker;
  std::string how;
  bool has_ended = false; // the process has ended already
};
struct worker_silent {
  worker_incarnation worker;
};
// From the owner of the pool: the processes from now on.
struct worker_processes {
  std::vector<worker_process> all;
};

} // namespace baton::gateway

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::open_infer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_greeted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_replied)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_counted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_leaving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_silent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_processes)

namespace baton::gateway {

using worker_pool_actor = actors::takes<open_infer, close_request, worker_greeted, worker_replied,
                                        worker_counted, worker_leaving, worker_lost, worker_silent,
                                        worker_processes, actors::peer_up, drain, actors::tick>;

struct worker_pool_config {
  std::string model, version = "1"; // the labels of its metrics
  schedule::worker_limits limits;
  std::vector<worker_process> processes;
  std::shared_ptr<gateway_state> facts;
  std::shared_ptr<worker_load> load = std::make_shared<worker_load>();
  // Sends to a worker of this incarnation, if it is still linked; any thread, never blocks.
  std::function<void(worker_incarnation, message)> send;
  // To the root.
  std::function<void(const status&)> report;
  // A drain is complete: all requests have ended, by themselves or by the grace period. Called
  // once.
  std::function<void()> drained = [] {};
};

worker_pool_actor spawn_worker_pool(caf::actor_system& system, worker_pool_config config);

// The worker models of this gateway: a value in its state, replaced as a whole.
struct worker_model {
  std::string version;
  worker_pool_actor pool;
  bool is_default = false;
};
struct worker_models {
  // The chosen version first, else the newest.
  std::map<std::string, std::vector<worker_model>, std::less<>> by_name;

  // An empty `version` means the first. Null: there is none.
  const worker_model* find(std::string_view name, std::string_view version) const;
};

} // namespace baton::gateway
