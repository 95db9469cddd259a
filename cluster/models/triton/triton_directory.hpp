// Reads a Triton model repository from disk, with digests that reveal changes.
#pragma once

#include "cluster/models/triton/triton_import.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace baton::cluster {

inline constexpr const char* triton_config_file = "config.pbtxt";

// Follows Triton: "007" is not a version.
bool is_triton_version(const std::string& name);

// Reads one directory of a repository for the newest version that version_policy chooses. Its files
// complete the configuration (triton_completion.hpp). Errors: of its files (io_failed,
// bad_config).
result<triton_model> read_triton_model(const std::filesystem::path& directory);

// A model with all its versions, and a fingerprint of its files.
struct repository_directory {
  std::string name;
  triton_model model; // as written: all versions, and config.pbtxt
  // The versions that version_policy chooses: each alone, its configuration completed from its own
  // files, or the error.
  std::map<std::uint32_t, result<triton_model>> chosen;
  // By version: of the names, sizes and times of its files, and of config.pbtxt.
  std::map<std::uint32_t, std::uint64_t> digests;
  std::string unreadable; // why it could not be read; empty: it was
};
// All directories of a repository, sorted by name; names that begin with '.' are skipped. Errors:
// io_failed, bad_config (too many).
result<std::vector<repository_directory>>
read_model_repository(const std::filesystem::path& repository);

} // namespace baton::cluster
