// The routes of Anthropic's Messages API. They read the gateway's state.
#pragma once

#include "gateway/request/route.hpp"

#include <span>

namespace baton::gateway {

extern const api_family anthropic_family;
std::span<const route_row> anthropic_routes() noexcept;

} // namespace baton::gateway
