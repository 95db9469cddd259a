// The routes of Ollama's API. They read the gateway's state.
#pragma once

#include "gateway/request/route.hpp"

#include <span>
#include <string_view>

namespace baton::gateway {

extern const api_family ollama_family;
std::span<const route_row> ollama_routes() noexcept;

// Whether errors at this path have Ollama's shape.
bool is_ollama_path(std::string_view path) noexcept;

// Ollama's own address (gateway.ollama) has these routes, OpenAI's, which Ollama serves too, and a
// root that says that it runs.
bool is_at_ollama(std::string_view path) noexcept;
const route_row& ollama_root() noexcept;

} // namespace baton::gateway
