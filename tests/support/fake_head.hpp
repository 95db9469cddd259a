// A head without a model: scheduler and tokenizer actors with the interfaces of the real ones,
// whose answers the prompt describes. For tests of the gateway alone.
// Words of the form key=value in the prompt are orders:
//   tokens=N    output tokens (default 8; max_tokens may end it earlier)
//   pace_ms=N   between tokens (default 0: all at once)
//   bytes=N     length of each token's text
//   text=T      each token's text instead of "w0 ", "w1 " ...
//   stop=T      an end that is no length is for this stop text
//   answer=HEX  the bytes of the whole answer instead, ASCII, three a token
//   fail_at=N   the N-th token does not come: finish failed, errc internal
//   twice_at=N  the N-th token comes twice
//   gap_at=N    the N-th token is lost on the way
//   gaps=N      that often (default 1)
//   refuse=E    rejected after tokenizing, with the errc of that name
//   hold=1      no answer at all
#pragma once

#include "actors/interfaces.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace baton::tests {

struct fake_head_config {
  std::uint32_t slots = 1000; // reserve beyond: rejected{no_job_ticket}
  std::chrono::milliseconds retry_after{1500};
  ticket_id next_ticket{1};
  std::uint64_t ticket_step = 1;
  std::shared_ptr<actors::gateway_actor> gateway; // set before the first request
  std::function<void(const std::string&)> log;    // a JSON line per event; on any thread
};

struct fake_head {
  actors::scheduler_actor scheduler;
  actors::tokenizer_actor tokenizer;
  std::shared_ptr<actors::gateway_actor> gateway; // of its config
};

fake_head spawn_fake_head(caf::actor_system& system, fake_head_config config);

// The model card of this head.
model_card fake_card(std::string name);

} // namespace baton::tests
