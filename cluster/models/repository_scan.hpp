// What a model repository asks to be served: of each model the versions that its version_policy
// chooses, each as a [[workers]] table by the translation of `cluster import`, or why it cannot be
// served. Pure: the directories were read before.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/models/triton_directory.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace baton::cluster {

struct scanned_version {
  std::string version;            // empty: of the model as a whole, which is refused
  std::uint64_t digest = 0;       // of its files
  std::string table;              // [[workers]]
  worker_config worker;           // the same, read; `command` and `count` are as it says
  std::string refusal;            // why it cannot be served; empty: it can
  std::vector<std::string> notes; // what was left out of it, or means something else here
  // Of a model store (store_models.hpp).
  std::string archive{};                  // its name there; empty: it is of a repository
  std::optional<std::uint32_t> workers{}; // as asked for, in place of the table's `count`
  bool is_tentative = false;              // it has not been ready yet, and leaves if it fails

  friend bool operator==(const scanned_version&, const scanned_version&) = default;
};

// By name; of each at least one.
using scanned_models = std::map<std::string, std::vector<scanned_version>, std::less<>>;

// `taken`: names that others have, LLMs and [[workers]] of nodes.toml.
scanned_models scan_repository(const std::vector<repository_directory>& directories,
                               const std::set<std::string>& taken);

} // namespace baton::cluster
