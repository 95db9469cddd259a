// The routes by which llama.cpp's llama-server, as a router, lists, loads and unloads models.
#pragma once

#include "gateway/request/route.hpp"

#include <span>

namespace baton::gateway {

std::span<const route_row> llama_server_routes() noexcept;

} // namespace baton::gateway
