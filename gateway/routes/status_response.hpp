// What a board says of the cluster, as JSON: /health, /ping, /version, /load, /cluster. Pure.
#pragma once

#include "gateway/state/gateway_state.hpp"

#include <string>

namespace baton::gateway {

std::string health_body(const snapshot& s);
// TorchServe's words.
std::string ping_body(const snapshot& s);
std::string version_body(const std::string& build);
// vLLM's server_load, and what the first pipeline's scheduler reports; of several also all.
std::string load_body(const snapshot& s, std::size_t requests_open);
// All that the web page draws: phases, processes, stages, load (as above).
std::string cluster_body(const snapshot& s, std::size_t requests_open);

} // namespace baton::gateway
