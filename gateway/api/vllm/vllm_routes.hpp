// The routes of vLLM's API server beside OpenAI's: /tokenize, /detokenize and /generate. They read
// the gateway's state.
#pragma once

#include "gateway/request/route.hpp"

#include <span>

namespace baton::gateway {

std::span<const route_row> vllm_routes() noexcept;

} // namespace baton::gateway
