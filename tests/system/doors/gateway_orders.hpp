// Orders to the gateway fixture that change the cluster, each a line.
//
//   drain
//   shards N             the number of shards per pipeline, as reported by the root
//   head_down | head_up | phase NAME | waiting N
//                        followed by a pipeline's index (default: the first)
//   allocations BYTES    larger ones fail in the servers' threads; 0: no limit
#pragma once

#include "gateway/dispatch/request_router.hpp"

#include <string>
#include <vector>

namespace baton::tests {

// The head of the pipeline with this index.
process_id head_process(std::size_t pipeline);

// Returns once the order is carried out: a request sent next sees its effect.
void obey(const std::string& line, const gateway::router_and_clients& all,
          const std::vector<std::string>& models);

} // namespace baton::tests
