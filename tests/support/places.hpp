// Where tests find the tree and the engines of the build: the build's own paths, or those in the
// environment. The latter is for a machine to which both were copied (docs/develop/gpu.md).
#pragma once

#include <cstdlib>
#include <filesystem>

namespace baton::testing {

inline std::filesystem::path source_directory() {
  const char* carried = std::getenv("BATON_SOURCE_DIR");
  return carried != nullptr && *carried != 0 ? carried : BATON_SOURCE_DIR;
}

#ifdef BATON_ENGINES_DIR
inline std::filesystem::path engines_directory() {
  const char* carried = std::getenv("BATON_ENGINES");
  return carried != nullptr && *carried != 0 ? carried : BATON_ENGINES_DIR;
}
#endif

} // namespace baton::testing
