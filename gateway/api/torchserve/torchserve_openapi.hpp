// What a door of TorchServe's says of itself: OpenAPI 3.0.1, as TorchServe's own. Pure.
#pragma once

#include "gateway/config/config.hpp"
#include "gateway/routes/http_api.hpp"

#include <string>

namespace baton::gateway {

// The operations of this door, without a line end behind it. Requires: is_torchserve(door).
std::string torchserve_openapi(door_kind door, const gateway_config& config,
                               bool has_store = false);

} // namespace baton::gateway
