#include "cluster/files/files_below.hpp"

#include <algorithm>

namespace baton::cluster {
namespace fs = std::filesystem;

std::vector<fs::path> files_below(const fs::path& directory, int depth_max) {
  std::vector<fs::path> all;
  std::error_code failed, unknown;
  constexpr auto skips = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(directory, skips, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at.depth() >= depth_max)
      at.disable_recursion_pending();
    if (at->is_regular_file(unknown))
      all.push_back(at->path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

} // namespace baton::cluster
