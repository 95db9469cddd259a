// Sends each request to the client of the pipeline that is to serve it (routing_policy.hpp). The
// head answers to that client, which writes to the stream. The router sees only the start of a
// request and its cancellation.
//
//   `open_generate`: with a request_id, the pipeline of that id; else the routing policy's choice.
//   `open_resume`: the pipeline that granted the ticket.
//   `handover`: another pipeline. If there is none, a request without a grant is refused, and a
//               migrating stream goes back and waits.
//   `ticket_left`: the pipeline that granted the ticket.
//   `close_request`: all pipelines; those that do not know the request ignore it.
#pragma once

#include "gateway/dispatch/pipeline_client.hpp"

#include <memory>
#include <vector>

namespace baton::gateway {

// The head of one pipeline, as handles that may be proxies.
struct head_actors {
  actors::scheduler_actor scheduler;
  actors::tokenizer_actor tokenizer;
};

struct router_and_clients {
  request_router_actor router;
  std::vector<pipeline_client_actor> pipeline_clients; // by pipeline index
};

// Requires: one head for each pipeline of `facts`.
router_and_clients spawn_request_router(caf::actor_system& system,
                                        std::shared_ptr<gateway_state> facts,
                                        const std::vector<head_actors>& heads);

} // namespace baton::gateway
