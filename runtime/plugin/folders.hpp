// Where this program's own shared libraries are: those that it opens and is not linked with.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace baton::plugin {

// In the order of the search. `variable` of the environment names the only folder, if it is set.
// Otherwise: the program's own folder, `kind` in it, as in a build, and ../lib/baton/`kind`, as in
// an installation. `kind` is "engines" or "doors".
std::vector<std::filesystem::path> library_folders(const char* variable, std::string_view kind);

} // namespace baton::plugin
