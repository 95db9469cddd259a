// The routes of the KServe v2 protocol (Open Inference Protocol) with Triton's extensions. They
// read the gateway's state.
#pragma once

#include "gateway/request/route.hpp"

#include <span>

namespace baton::gateway {

extern const api_family kserve_family;
std::span<const route_row> kserve_routes() noexcept;

} // namespace baton::gateway
