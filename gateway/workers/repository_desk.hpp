// Loads and unloads of the model repository, and orders of the model store, between the doors and
// the root, which decides: a number for each, the answer to the stream that waits for it, an end
// for those that are not answered.
//
//   door -open_change-> repository_desk -change_model-> root
//   door <-model_changed or failed- repository_desk <-model_changed- root
#pragma once

#include "gateway/dispatch/desk.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <functional>

namespace baton::gateway {

// Doors to this desk, local only. `change.request` is set from the stream's number.
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

struct repository_desk_config {
  node_id root;                                 // a loss of whom ends what waits for it
  std::function<void(const change_model&)> ask; // the root
  // A model's own startup_timeout ends what does not come up; this is for a root that says nothing.
  std::chrono::milliseconds answer_max{600'000};
};

repository_actor spawn_repository_desk(caf::actor_system& system, repository_desk_config config);

// On the board.
struct repository_link {
  repository_actor desk;
  bool has_store = false; // clients may register models
};

} // namespace baton::gateway
