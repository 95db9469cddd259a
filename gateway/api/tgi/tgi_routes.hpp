// The routes of text-generation-inference's API. It shares the path of /tokenize with another API,
// and takes the bodies of its own there. They read the gateway's state.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/route.hpp"

#include <span>

namespace baton::gateway {

extern const api_family tgi_family;
std::span<const route_row> tgi_routes() noexcept;

message_call answer_tgi(tokenize_call call);

} // namespace baton::gateway
