// The route of worker models, which takes and gives bodies as their handlers do. Pure.
#pragma once

#include "gateway/request/route.hpp"

#include <span>

namespace baton::gateway {

std::span<const route_row> worker_routes() noexcept;

} // namespace baton::gateway
