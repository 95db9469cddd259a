// Translates a model repository to the versions to serve. For each model it takes the versions that
// version_policy chooses. Each becomes a [[workers]] table, as with `cluster import`, or a reason
// why it cannot be served. Pure: its input is already read.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/models/triton/triton_directory.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

struct scanned_version {
  std::string version;            // empty: the entry refuses the model as a whole
  std::uint64_t digest = 0;       // of its files
  std::string table;              // [[workers]]
  worker_config worker;           // the parsed table; `command` and `count` come from it
  std::string refusal;            // why it cannot be served; empty: it can
  std::vector<std::string> notes; // what was left out, or has another meaning here
  // For a model store (store_models.hpp).
  std::string archive{};                  // its name there; empty: the model is of a repository
  std::optional<std::uint32_t> workers{}; // as requested; replaces the table's `count`
  bool is_tentative = false;              // not yet ready, and removed if it fails

  friend bool operator==(const scanned_version&, const scanned_version&) = default;
};

// By name; each has at least one version.
using scanned_models = std::map<std::string, std::vector<scanned_version>, std::less<>>;

// `taken`: names in use by LLMs and [[workers]] of nodes.toml.
scanned_models scan_repository(const std::vector<repository_directory>& directories,
                               const std::set<std::string>& taken);

} // namespace baton::cluster
