#include "runtime/plugin/folders.hpp"

#include <cstdlib>
#include <system_error>

namespace baton::plugin {

std::vector<std::filesystem::path> library_folders(const char* variable, std::string_view kind) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != 0)
    return {named};
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {program, program / kind, program.parent_path() / "lib" / "baton" / kind};
}

} // namespace baton::plugin
