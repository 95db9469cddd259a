// The files of a directory tree that another program, or a server, has filled.
#pragma once

#include <filesystem>
#include <limits>
#include <vector>

namespace baton::cluster {

inline constexpr int any_depth = std::numeric_limits<int>::max();

// Regular files below the directory, ordered by path. A link to a file is one; links to directories
// are not followed; directories that cannot be read are left out. `depth_max`: folders between the
// directory and a file.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& directory,
                                               int depth_max = any_depth);

} // namespace baton::cluster
