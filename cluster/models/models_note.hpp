// Which worker models a running cluster has, noted in its directory: a worker finds its command
// there, a gateway its pools, and a root that comes later what was left.
#pragma once

#include "cluster/files/run_dir.hpp"
#include "cluster/models/repository_book.hpp"

#include <filesystem>
#include <optional>
#include <set>

namespace baton::cluster {

// Errors: io_failed.
result<void> note_models(const run_dir& dir, const noted_models& now);
// Nothing if there is none. Without what nodes.toml has no repository or store for any more.
std::optional<noted_models> noted_models_of(const cluster_config& config, const run_dir& dir);

// As this cluster's root would start: what nodes.toml and the note say.
repository_book::options book_options(const cluster_config& config);
served_models noted_standing(const cluster_config& config, const run_dir& dir);

// The processes that are to run.
struct worker_child {
  node_id node;
  std::string name;
  std::chrono::milliseconds startup_timeout{0};
};
std::vector<worker_child> workers_of(const cluster_config& config, const served_models& all);

// The worker of this place: its process, and what it serves. Nothing if there is none.
struct worker_post {
  model_worker process;
  worker_config of;
  std::uint64_t revision = 0;
};

// Where workers of this revision unpack an archive, if they serve one: sdk/python/baton_worker/
// archive.py.
std::filesystem::path files_of(const run_dir& dir, std::uint64_t revision);
// Removes what was unpacked for others than these.
void remove_files_of_others(const run_dir& dir, const std::set<std::uint64_t>& revisions);
std::optional<worker_post> find_worker(const cluster_config& config, const served_models& all,
                                       node_id worker);
// The same of one model. Requires: nodes.toml or this build's translation has made it.
worker_config config_of(const cluster_config& config, const served_model& model);

} // namespace baton::cluster
