// Forwards loads and unloads of the model repository, and changes of the model store, to the root,
// which decides. It numbers each, sends the answer to the stream that waits, and ends those without
// an answer. A `keep` (keep_alive of a request) that has no answer is sent again to a root that
// comes up: the request itself is answered without it.
//
//   server --open_change--> repository_client --change_model--> root
//   server <--model_changed or failed-- repository_client <--model_changed-- root
#pragma once

#include "gateway/dispatch/pipeline_client.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>

namespace baton::gateway {

// Servers to this actor, local only. `change.request` is set from the stream's number.
struct open_change {
  std::shared_ptr<stream> out;
  change_model change;
};

} // namespace baton::gateway

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::model_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::gateway::open_change)

namespace baton::gateway {

using repository_actor = actors::takes<open_change, close_request, model_changed, actors::peer_up,
                                       actors::peer_down, actors::tick>;

struct repository_client_config {
  process_id root;                              // its loss ends all that waits
  std::function<void(const change_model&)> ask; // sends to the root
  // A model's own startup_timeout ends a load that hangs; this one is for a root that hangs.
  std::chrono::milliseconds answer_max{600'000};
};

repository_actor spawn_repository_client(caf::actor_system& system,
                                         repository_client_config config);

// In the gateway's state.
struct repository_link {
  repository_actor client;
  bool has_store = false; // clients may register models
};

} // namespace baton::gateway
