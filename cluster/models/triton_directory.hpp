// A model repository of Triton on disk: what of it is read, and what tells that it has changed.
#pragma once

#include "cluster/models/triton_import.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace baton::cluster {

inline constexpr const char* triton_config_file = "config.pbtxt";

// As Triton: "007" is none.
bool is_triton_version(const std::string& name);

// A directory of a repository, of which one version is served: of those that version_policy
// chooses the newest, whose files complete the configuration (triton_completion.hpp). Errors: of
// its files (io_failed, bad_config).
result<triton_model> read_triton_model(const std::filesystem::path& directory);

// All of it, and how its files are now.
struct repository_directory {
  std::string name;
  triton_model model; // as it is written: all versions, and config.pbtxt
  // By version, those that version_policy chooses: it alone, the configuration completed of its own
  // files; or why that cannot be.
  std::map<std::uint32_t, result<triton_model>> chosen;
  // By version: of names, sizes and times of its files, and of config.pbtxt.
  std::map<std::uint32_t, std::uint64_t> digests;
  std::string unreadable; // why; empty: it was read
};
// All directories in it, by name; those whose name begins with '.' are not looked at. Errors:
// io_failed, bad_config (too many).
result<std::vector<repository_directory>>
read_model_repository(const std::filesystem::path& repository);

} // namespace baton::cluster
