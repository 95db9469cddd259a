// The routes of OpenAI's Responses API. They read the gateway's state.
#pragma once

#include "gateway/request/route.hpp"

#include <span>

namespace baton::gateway {

std::span<const route_row> responses_routes() noexcept;

} // namespace baton::gateway
