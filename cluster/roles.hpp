// One function per role that a process can have (design: one binary, several roles). Each returns
// the exit status.
#pragma once

#include "cluster/plan.hpp"
#include "cluster/run_dir.hpp"
#include "runtime/engine/engine.hpp"
#include "schema/ids.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace baton::cluster {

// A role ends with this status where a restart cannot help: configuration, model file, address in
// use (EX_CONFIG of sysexits.h). Its supervisor gives up at once, with the last line of its log as
// the reason.
inline constexpr int exit_permanent = 78;
// A process ends itself with this one where it cannot go on: a restart may help (EX_SOFTWARE).
inline constexpr int exit_software = 70;

// What a child is told on its command line; all else it reads from the cluster's configuration.
struct role_arguments {
  std::filesystem::path config;             // the running cluster's copy
  epoch_id epoch;                           // of this life
  std::uint32_t index = 0;                  // agent: of the node; shard: its stage
  std::optional<int> kv_file;               // shard: memory that its agent holds for its KV
  std::optional<int> copies;                // shard: where its next life waits (next_life.hpp)
  std::uint64_t memory_available_bytes = 0; // when the cluster came up: all plan with the same
  std::uint64_t model_identity = 0;         // of the model that it came up with
};

// Configuration, model and plan as every role of a running cluster sees them.
struct cluster_context {
  cluster_config config;
  model::description model;
  cluster_plan plan;
  machine_facts machine; // that it was made for
  std::uint64_t model_identity = 0;
  run_dir dir;
};

// `identity`: of the model that the cluster came up with; none: it comes up now. Errors: as
// load_config, open_model, check_identity, describe and make_plan.
result<cluster_context> load_context(const std::filesystem::path& config,
                                     const machine_facts& machine,
                                     std::optional<std::uint64_t> identity = std::nullopt);
// For `cluster up`: where a root has left its cluster running, memory and model are those of when
// it came up. Errors: as load_context.
result<cluster_context> load_context_of_root(const std::filesystem::path& config);

int run_gateway(const cluster_context& context, const role_arguments& arguments);
int run_head(const cluster_context& context, const role_arguments& arguments);
int run_agent(const cluster_context& context, const role_arguments& arguments);

// What a test puts around a shard's engine (tests/system/cluster/cluster_poisoned.cpp); none: the
// engine as it is.
using engine_wrapper =
    std::function<std::shared_ptr<engine::engine>(std::shared_ptr<engine::engine>)>;
int run_shard(const cluster_context& context, const role_arguments& arguments,
              const engine_wrapper& wrap);

struct up_options {
  std::filesystem::path config;
  bool json = false;
};
// The root: starts everything, shows progress, serves until SIGTERM or ^C, drains.
int run_root(const cluster_context& context, const up_options& options);

} // namespace baton::cluster
