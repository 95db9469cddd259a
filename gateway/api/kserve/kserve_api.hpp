// The routes of the KServe v2 protocol (Open Inference Protocol) with Triton's extensions. Each
// maps a call to a reply or to a typed request. Pure except that it reads the gateway state.
#pragma once

#include "gateway/routes/http_api.hpp"

#include <array>

namespace baton::gateway {

constexpr route_row kserve_row(std::string_view path, method_set methods, route_access access) {
  return {path, methods, access, api_family::kserve};
}

inline constexpr std::array kserve_routes{
    kserve_row("/v2", method_set::get, route_access::user),
    kserve_row("/v2/health/live", method_set::get, route_access::open),
    kserve_row("/v2/health/ready", method_set::get, route_access::open),
    kserve_row("/v2/models/stats", method_set::get, route_access::user), // before {model}
    kserve_row("/v2/models/{model}", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/ready", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/config", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/stats", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/infer", method_set::post, route_access::user),
    kserve_row("/v2/models/{model}/generate", method_set::post, route_access::user),
    kserve_row("/v2/models/{model}/generate_stream", method_set::post, route_access::user),
    kserve_row("/v2/models/{model}/versions/{version}", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/versions/{version}/ready", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/versions/{version}/config", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/versions/{version}/stats", method_set::get, route_access::user),
    kserve_row("/v2/models/{model}/versions/{version}/infer", method_set::post, route_access::user),
    kserve_row("/v2/models/{model}/versions/{version}/generate", method_set::post,
               route_access::user),
    kserve_row("/v2/models/{model}/versions/{version}/generate_stream", method_set::post,
               route_access::user),
    kserve_row("/v2/repository/index", method_set::post, route_access::user),
    kserve_row("/v2/repository/models/{model}/load", method_set::post, route_access::admin),
    kserve_row("/v2/repository/models/{model}/unload", method_set::post, route_access::admin),
};

// Paths whose errors have Triton's shape, including paths without a route.
inline bool is_kserve(std::string_view path) noexcept {
  return path == "/v2" || path.starts_with("/v2/");
}

// Requires: path and method match one of the routes.
http_plan plan_kserve(std::string_view path, const http_call& call, const gateway_state& facts);

} // namespace baton::gateway
