// The gateway's HTTP API as an OpenAPI 3.1 document: the paths are those of http_api's table, the
// fields of bodies those that the readers ask for, so it cannot say what the server does not take.
#pragma once

#include "gateway/config/config.hpp"

#include <string>

namespace baton::gateway {

std::string openapi_body(const gateway_config& config);

} // namespace baton::gateway
