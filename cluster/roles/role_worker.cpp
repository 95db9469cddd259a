// A worker's process before it becomes the operator's command. It registers in the run directory,
// so that it outlives its supervisor and the next one finds it. Then it executes the command, or
// the launcher of a process group.
#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/worker_devices.hpp"
#include "cluster/files/log_level.hpp"
#include "cluster/machines/worker_cores.hpp"
#include "cluster/models/models_record.hpp"
#include "cluster/plan/worker_group.hpp"
#include "cluster/plan/worker_slots.hpp"
#include "cluster/process/child.hpp"
#include "cluster/roles/roles.hpp"

#include <sched.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace baton::cluster {
namespace {

constexpr const char* threads_variable = "OMP_NUM_THREADS";
constexpr const char* gpu_variable = "BATON_WORKER_GPU_ID";

void set(const char* name, const std::string& value) {
  setenv(name, value.c_str(), /*replace=*/1);
}

// The devices and cores on which it computes.
struct worker_devices {
  worker_gpus gpus;
  worker_cores cores;
};

std::uint32_t processes_of(const worker_config& w) {
  return w.is_group() ? w.parallel_level : 1;
}

result<worker_devices> devices_for(const cluster_config& config, const served_models& all,
                                   const worker_post& post) {
  const auto& own = post.process;
  auto gpus =
      gpus_of(post.of, position_of(config, process_ids::index_of_worker(own.process), own.name),
              gpus_for_workers(config, devices_here()));
  if (!gpus)
    return gpus.error();
  worker_processes who{0, processes_of(post.of), 0};
  for (const auto& m : all.all)
    if (!m.workers.empty()) {
      const auto of = config_of(config, m);
      if (!of)
        return of.error();
      const auto each = processes_of(*of);
      for (const auto& w : m.workers) {
        who.all += each;
        who.before += w.process.value < own.process.value ? each : 0;
      }
    }
  const auto facts = facts_of_this_machine();
  auto cores = cores_of(config.launcher, cores_here(config.launcher, facts), who);
  if (!cores)
    return fail(errc::bad_config, "cluster.cpu_launcher_args: {}", cores.error().message);
  return worker_devices{*std::move(gpus), *std::move(cores)};
}

// Pins processes that are started from here on to these cores.
void bind_to(const std::vector<std::uint32_t>& cores) {
  cpu_set_t bound;
  CPU_ZERO(&bound);
  for (const auto core : cores)
    CPU_SET(core, &bound);
  if (!cores.empty() && sched_setaffinity(0, sizeof bound, &bound) != 0)
    spdlog::warn("the worker may use all cores: {}", std::strerror(errno));
}

// Environment of the SDK (docs/apis/workers/libraries-and-other-languages.md).
void set_environment(const cluster_config& config, const run_dir& dir, const worker_post& post,
                     incarnation_id incarnation, const worker_devices& where) {
  set("BATON_WORKER_DOOR", dir.endpoint(worker_endpoint_name(post.process.gateway_index)));
  set("BATON_WORKER_NODE", std::to_string(post.process.process.value));
  set("BATON_WORKER_EPOCH", std::to_string(incarnation.value));
  set("BATON_WORKER_NAME", post.process.name);
  set("BATON_WORKER_MODEL", post.of.name);
  set("BATON_WORKER_VERSION", post.of.version);
  set("BATON_WORKER_BATCH_SIZE", std::to_string(post.of.batch_size));
  set("BATON_WORKER_FILES", files_of(dir, post.revision).string());
  set(log_level_variable, log_level_of(config.log_level));
  set("BATON_DOOR", config.gateway.zmq); // for requests of a handler to other models
  if (where.gpus.visible)
    set("CUDA_VISIBLE_DEVICES", *where.gpus.visible);
  unsetenv(gpu_variable); // meant for this worker only
  if (where.gpus.gpu_id)
    set(gpu_variable, std::to_string(*where.gpus.gpu_id));
  if (post.of.omp_num_threads > 0)
    set(threads_variable, std::to_string(post.of.omp_num_threads));
  else if (!std::getenv(threads_variable))
    set(threads_variable, std::to_string(where.cores.threads));
}

// TorchServe's job id is model and port; here it is the unique name of the process.
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
  const auto snapshot = recorded_snapshot(*config, *dir);
  const auto post = find_worker(*config, snapshot, process_ids::worker(arguments.index));
  if (!post) {
    spdlog::error("{}", post.error().message);
    return exit_permanent;
  }
  const auto where = devices_for(*config, snapshot, *post);
  if (!where) {
    spdlog::error("{}", where.error().message);
    return exit_permanent;
  }
  set_environment(*config, *dir, *post, arguments.incarnation, *where);
  bind_to(where->cores.bound);
  dir->record_device(post->process.name, where->gpus.text());
  outlive_parent(*dir, post->process.name, arguments.incarnation);
  spdlog::shutdown(); // its threads do not survive exec
  return post->of.is_group() ? run_group(group_of(*post), post->of.command)
                             : become_command(post->of.command);
}

} // namespace baton::cluster
