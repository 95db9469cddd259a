// What `cluster rm` removes.
#pragma once

#include "cluster/hub/hub_cache.hpp"
#include "cluster/hub/hub_settings.hpp"
#include "cluster/hub/model_reference.hpp"

#include <filesystem>
#include <vector>

namespace baton::cluster {

struct removal {
  std::vector<cached_snapshot> snapshots;   // with the files to remove alone
  std::vector<std::filesystem::path> files; // of a URL
};

// A repository without a quantization: all its snapshots, or that of the revision if one is given.
// With one: that file, in each of them. Errors: not_found, invalid_value (a path).
result<removal> plan_removal(const model_reference& reference, const hub_settings& settings);
// The files' bytes, as canonical paths: a cluster that serves one of them needs it.
std::vector<std::filesystem::path> files_of(const removal& what, const hub_settings& settings);
// Errors: io_failed.
result<removed_files> remove_model(const removal& what, const hub_settings& settings);

} // namespace baton::cluster
