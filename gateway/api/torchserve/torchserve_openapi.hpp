// The API description of a TorchServe address: OpenAPI 3.0.1, like TorchServe's own. Pure.
#pragma once

#include "gateway/config/config.hpp"
#include "gateway/request/http_call.hpp"

#include <string>

namespace baton::gateway {

// The operations of this listener, without a final newline. Requires: is_torchserve.
std::string torchserve_openapi(listener_kind listener, const gateway_config& config,
                               bool has_store = false);

} // namespace baton::gateway
