// The files of a directory tree that another program, or a server, has filled.
#pragma once

#include <filesystem>
#include <vector>

namespace baton::cluster {

inline constexpr std::size_t files_below_max = 100'000;
inline constexpr int depth_below_max = 32;

// Regular files below the directory, ordered by path, at most files_below_max of them. A link to a
// file is one; links to directories are not followed; directories that cannot be read are left
// out. `depth_max`: folders between the directory and a file.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& directory,
                                               int depth_max = depth_below_max);

} // namespace baton::cluster
