// Ollama's `keep_alive`: how long a model stays loaded without a request. Pure.
// https://github.com/ollama/ollama/blob/main/docs/api.md
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace baton::gateway {

inline constexpr std::chrono::milliseconds keeps_forever{-1};
inline constexpr std::chrono::hours keep_alive_max{24 * 365 * 10}; // more is without end

// A number of seconds; below 0: without end.
std::chrono::milliseconds keep_alive_of(double seconds) noexcept;
// "5m", "1h30m", "1.5h", "-1m", or a number of seconds. Nothing: it is none of them.
std::optional<std::chrono::milliseconds> parse_keep_alive(std::string_view text) noexcept;

} // namespace baton::gateway
