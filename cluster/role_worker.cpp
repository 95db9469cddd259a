// A worker's process until it is the operator's own: it takes its place in the run directory, so
// that it outlives its supervisor and is found by the next one, and becomes the command, or the
// launcher of a group of them.
#include "cluster/child.hpp"
#include "cluster/log_level.hpp"
#include "cluster/models_note.hpp"
#include "cluster/roles.hpp"
#include "cluster/worker_devices.hpp"
#include "cluster/worker_group.hpp"
#include "cluster/worker_seats.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

namespace baton::cluster {
namespace {

// "worker-echo-1": 1.
std::uint32_t number_of(const std::string& process) {
  return static_cast<std::uint32_t>(
      std::strtoul(process.substr(process.rfind('-') + 1).c_str(), nullptr, 10));
}

// What its SDK reads (docs/workers.md).
void set_environment(const cluster_config& config, const run_dir& dir, const worker_post& post,
                     epoch_id epoch) {
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), /*replace=*/1);
  };
  set("BATON_WORKER_DOOR", dir.endpoint(worker_door_name(post.process.gateway_index)));
  set("BATON_WORKER_NODE", std::to_string(post.process.node.value));
  set("BATON_WORKER_EPOCH", std::to_string(epoch.value));
  set("BATON_WORKER_NAME", post.process.name);
  set("BATON_WORKER_MODEL", post.of.name);
  set("BATON_WORKER_VERSION", post.of.version);
  set("BATON_WORKER_BATCH_SIZE", std::to_string(post.of.batch_size));
  set("BATON_WORKER_FILES", files_of(dir, post.revision).string());
  set(log_level_variable, log_level_of(config.log_level));
  set("BATON_DOOR", config.gateway.zmq); // where a handler asks other models
  if (const auto devices = visible_devices(post.of, number_of(post.process.name), devices_here()))
    set("CUDA_VISIBLE_DEVICES", *devices);
  if (post.of.omp_num_threads > 0)
    set("OMP_NUM_THREADS", std::to_string(post.of.omp_num_threads));
}

// TorchServe's id of a job is its model and port; here it is the process's name, which no other
// has.
worker_group group_of(const worker_post& post) {
  return {post.of.parallel_level, std::string(name_of(post.of.parallel)), post.process.name,
          std::max(1u, post.of.omp_num_threads)};
}

} // namespace

int run_worker(const role_arguments& arguments) {
  const auto config = load_config(arguments.config);
  if (!config) {
    spdlog::error("{}", config.error().message);
    return exit_permanent;
  }
  use_log_level(config->log_level);
  const auto dir = run_dir::open(arguments.config.parent_path());
  if (!dir) {
    spdlog::error("{}", dir.error().message);
    return exit_permanent;
  }
  const auto post =
      find_worker(*config, noted_standing(*config, *dir), place::worker(arguments.index));
  if (!post) {
    spdlog::error("no model has a worker {}", arguments.index);
    return exit_permanent;
  }
  set_environment(*config, *dir, *post, arguments.epoch);
  outlive_parent(*dir, post->process.name, arguments.epoch);
  spdlog::shutdown(); // its threads do not cross
  return post->of.is_group() ? run_group(group_of(*post), post->of.command)
                             : become_command(post->of.command);
}

} // namespace baton::cluster
