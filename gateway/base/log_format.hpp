// The format of all logs: time, level and message, one line each. Control characters in a message
// are escaped. A name from a file, a client or a peer cannot add a line, or move a terminal's
// cursor.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace baton::gateway {

// `has_colors`: of the level, where the sink supports them.
std::unique_ptr<spdlog::formatter> log_format(bool has_colors);

} // namespace baton::gateway
