// The state of the cluster as JSON: /health, /ping, /version, /load, /cluster. Pure.
#pragma once

#include "gateway/state/gateway_state.hpp"

#include <string>

namespace baton::gateway {

std::string health_body(const snapshot& s);
// In TorchServe's format.
std::string ping_body(const snapshot& s);
std::string version_body(const std::string& build);
// vLLM's server_load and the first pipeline's scheduler; if there are several, all of them too.
std::string load_body(const snapshot& s, std::size_t requests_open);
// The data of the web page: phases, processes, stages, load (as above).
std::string cluster_body(const snapshot& s, std::size_t requests_open);

} // namespace baton::gateway
