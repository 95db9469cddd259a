// Splits /proc/PID/stat, or the file of a thread, into fields. proc(5).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// The fields after the name, which may hold spaces and parentheses: [0] is field 3, the state.
// Nothing if there is no such process, or fewer fields than `least`.
std::optional<std::vector<std::string>> stat_fields(const std::filesystem::path& file,
                                                    std::size_t least);

} // namespace baton::cluster
