// The actor between the doors and the workers of one model: queues and batches requests
// (runtime/schedule/worker_queue.hpp has the states), brings pieces to their streams, and asks for
// the end of a worker that hangs. Never touches a socket: the worker door speaks for it.
//
//   door -open_infer-> pool -infer_batch-> worker -inferred-> pool -> the stream
//   door -close_request-> pool -cancel_infer-> worker
//   pool -status(ready | failed)-> root, whose supervisor restarts what has failed
#pragma once

#include "gateway/base/streams.hpp"
#include "gateway/dispatch/desk.hpp"
#include "gateway/metrics/worker_load.hpp"
#include "gateway/state/board.hpp"
#include "runtime/schedule/worker_queue.hpp"

#include <caf/all.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace baton::gateway {

using schedule::worker_life;

// Doors to pool, local only. `request.request` is that of the stream.
struct open_infer {
  std::shared_ptr<stream> out;
  infer request;
  std::shared_ptr<quota_lease> lease = nullptr;
  trace_handle trace = nullptr; // none: it is not traced
  bool goes_alone = false;      // in a batch of its own
};

// The worker door to the pool.
struct worker_greeted {
  worker_life worker;
  std::uint64_t load_micros = 0; // 0: it did not say
};
struct worker_said {
  worker_life worker;
  inferred piece;
};
struct worker_counted {
  worker_life worker;
  std::vector<handler_metric> all;
};
struct worker_leaving { // it says `drain`
  worker_life worker;
};
struct worker_lost {
  worker_life worker;
  std::string how;
  bool has_ended = false; // its process: nobody need end it
};
struct worker_silent {
  worker_life worker;
};
// How a worker stands in the cluster.
struct worker_place {
  node_id node;
  std::string name; // "worker-echo-0"
};
// Whoever made the pool: there are others from now on.
struct worker_places {
  std::vector<worker_place> all;
};

} // namespace baton::gateway

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::open_infer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_greeted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_said)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_counted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_leaving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_silent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::worker_places)

namespace baton::gateway {

using worker_pool_actor = actors::takes<open_infer, close_request, worker_greeted, worker_said,
                                        worker_counted, worker_leaving, worker_lost, worker_silent,
                                        worker_places, actors::peer_up, drain, actors::tick>;

struct worker_pool_config {
  std::string model, version = "1"; // the labels of its metrics
  schedule::worker_limits limits;
  std::vector<worker_place> places;
  std::shared_ptr<board> facts;
  std::shared_ptr<worker_load> load = std::make_shared<worker_load>();
  // To a worker of this life, if it is still linked; any thread, never blocks.
  std::function<void(worker_life, message)> say;
  // To the root.
  std::function<void(const status&)> report;
  // It was told to drain, and has nothing open any more: its requests have ended, by themselves or
  // with the grace. Once.
  std::function<void()> drained = [] {};
};

worker_pool_actor spawn_worker_pool(caf::actor_system& system, worker_pool_config config);

// The worker models that this gateway asks: a value on the board, replaced as a whole.
struct worker_model {
  std::string version;
  worker_pool_actor pool;
  bool is_default = false;
};
struct worker_models {
  // The version that was chosen, else the newest, first.
  std::map<std::string, std::vector<worker_model>, std::less<>> by_name;

  // `version`: empty is the first. Null: there is none.
  const worker_model* find(std::string_view name, std::string_view version) const;
};

} // namespace baton::gateway
