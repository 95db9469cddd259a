// Between the doors and the desks, of which each pipeline has one: sends a request to the desk of
// the pipeline that is to serve it (router.hpp). What comes back from the head goes to the desk
// itself, and from there to the stream: the front sees a request's beginning alone, and its client
// leave.
//
//   open_generate: with a name, the pipeline of that name; else of the router's choice
//   open_resume: the pipeline whose ticket it is
//   handover: a pipeline cannot take it and nobody was told: another one, or it is refused. Or a
//             stream whose pipeline is away: another one, or it goes back and waits
//   ticket_left: the desk of the pipeline whose it is
//   close_request: every desk; those who do not know of it do nothing
#pragma once

#include "gateway/dispatch/desk.hpp"

#include <memory>
#include <vector>

namespace baton::gateway {

// The head of one pipeline, as handles that may be proxies.
struct head_actors {
  actors::scheduler_actor scheduler;
  actors::tokenizer_actor tokenizer;
};

struct front_and_desks {
  front_actor front;
  std::vector<desk_actor> desks; // by the number of their pipeline
};

// Requires: a head for each of the board's pipelines.
front_and_desks spawn_front(caf::actor_system& system, std::shared_ptr<board> facts,
                            const std::vector<head_actors>& heads);

} // namespace baton::gateway
