// The worker models of a running cluster, persisted in its run directory. A worker reads its
// command there, a gateway its pools, and a restarted root its earlier state.
#pragma once

#include "cluster/files/run_dir.hpp"
#include "cluster/models/model_registry.hpp"

#include <filesystem>
#include <optional>
#include <set>

namespace baton::cluster {

// Errors: io_failed.
result<void> record_models(const run_dir& dir, const recorded_models& now);
// None if there is no note. Omits models whose repository or store left nodes.toml.
std::optional<recorded_models> read_recorded_models(const cluster_config& config,
                                                    const run_dir& dir);

// The state in which this cluster's root would start: nodes.toml plus the note.
model_registry::options registry_options(const cluster_config& config);
served_models recorded_snapshot(const cluster_config& config, const run_dir& dir);

// A worker process that should run.
struct worker_child {
  process_id process;
  std::string name;
  std::chrono::milliseconds startup_timeout{0};
};
std::vector<worker_child> workers_of(const cluster_config& config, const served_models& all);

// The worker with this process id and its configuration.
struct worker_post {
  model_worker process;
  worker_config of;
  std::uint64_t revision = 0;
};

// Where workers of this revision unpack an archive, if they serve one
// (sdk/python/baton_worker/archive.py).
std::filesystem::path files_of(const run_dir& dir, std::uint64_t revision);
// Removes the unpacked files of all other revisions.
void remove_files_of_others(const run_dir& dir, const std::set<std::uint64_t>& revisions);
// Errors: not_found (no model has it), as config_of.
result<worker_post> find_worker(const cluster_config& config, const served_models& all,
                                process_id worker);
// The configuration of a model. Errors: not_found (nodes.toml does not have it), bad_config (the
// model's own text is not readable, as that of another build).
result<worker_config> config_of(const cluster_config& config, const served_model& model);

} // namespace baton::cluster
