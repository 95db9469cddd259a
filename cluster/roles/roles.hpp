// One function for each role of a process (one binary has several roles). Each returns the exit
// status.
#pragma once

#include "cluster/files/exit_status.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/plan/addresses.hpp"
#include "cluster/plan/plan.hpp"
#include "cluster/plan/plan_record.hpp"
#include "runtime/engine/engine.hpp"
#include "schema/ids.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace baton::cluster {

// Suffix of the name of the memory that holds a shard's KV.
inline constexpr std::string_view kv_file_suffix = "-kv";

// A child's command line; it reads everything else from the cluster's configuration.
struct role_arguments {
  std::filesystem::path config;  // the running cluster's copy
  incarnation_id incarnation;    // this incarnation
  std::uint32_t pipeline = 0;    // head, shard: its pipeline
  std::uint32_t index = 0;       // agent: of the node; shard: in the plan; else: within its role
  std::uint32_t generation = 0;  // shard: of that plan
  std::optional<int> kv_file;    // shard: memory that its agent holds for its KV
  std::optional<int> group_file; // shard: memory that the ranks of its stage share
  std::optional<int> copies;     // shard: where its standby copy waits
};

// The shared state of all pipelines; a cluster with only worker models has nothing else.
struct cluster_base {
  cluster_config config;
  plan_record made_with; // the input of the plans at their start
  run_dir dir;
  addresses where;
  std::string text; // of the configuration, as all machines get it (config_text.hpp)
};

// Configuration, model and plan of one pipeline, as every role of a running cluster sees them.
// `config` is this pipeline's view.
struct cluster_context : cluster_base {
  model::description model;
  cluster_plan plan;                  // of the serving generation
  std::optional<cluster_plan> coming; // during a change

  std::uint32_t pipeline() const noexcept { return config.pipeline; }
  const pipeline_record& record() const { return made_with.pipelines.at(pipeline()); }

  // Null if that generation neither serves nor starts.
  const cluster_plan* plan_of(std::uint32_t generation) const {
    if (plan.generation == generation)
      return &plan;
    return coming && coming->generation == generation ? &*coming : nullptr;
  }
};

inline stable_name name_of_head(const cluster_context& context) {
  return head_name(context.pipeline());
}

// A cluster and its pipelines by number; each context has only what differs between them.
struct cluster_contexts {
  cluster_base base;
  std::vector<cluster_context> pipelines;

  auto begin() const noexcept { return pipelines.begin(); }
  auto end() const noexcept { return pipelines.end(); }
  std::size_t size() const noexcept { return pipelines.size(); }
  const cluster_context& operator[](std::size_t i) const { return pipelines.at(i); }
};

// Contexts of all pipelines, by number. If `with` has none, the cluster starts now. If it has some,
// only these are loaded, with models of the noted identities (0: not checked yet). A cluster that
// starts passes over models of directories that cannot be served. `dir`: none means the configured
// one. Errors: as load_config, open_model, check_identity, describe,
// make_plan, check_fits_beside (of all of them) and addresses::create.
result<cluster_contexts> load_contexts(const std::filesystem::path& config, plan_record with,
                                       std::optional<run_dir> dir = std::nullopt);
// Whether the cluster could start with these machines; creates nothing. Errors: as load_contexts.
result<void> check_plans(cluster_config config, plan_record with);
// For a cluster that is only on this machine and not yet up.
plan_record with_this_machine();
// Contexts of a running cluster, from its copy of the configuration. They use the noted plan: a
// child must not plan anew, or fail, because memory is in use now. For all pipelines of this
// machine, one, or none. Errors: as load_contexts; not_found (there is no such pipeline).
result<cluster_contexts> load_contexts_of_child(const std::filesystem::path& config_copy);
result<cluster_base> load_base_of_child(const std::filesystem::path& config_copy);
result<cluster_context> load_context_of_child(const std::filesystem::path& config_copy,
                                              std::uint32_t pipeline);

// plan_table and plan_json of all pipelines; with several, the JSON is {"pipelines": [...]}.
// `expected`: for each pipeline, or empty.
using expected_speeds = std::vector<std::vector<expected_speed>>;
std::string plan_table(const cluster_contexts& all, const expected_speeds& expected = {});
std::string plan_json(const cluster_contexts& all, const expected_speeds& expected = {});

int run_gateway(const cluster_base& cluster, const role_arguments& arguments);
int run_head(const cluster_context& context, const role_arguments& arguments);
int run_agent(const cluster_contexts& all, const role_arguments& arguments);

// A test's wrapper around a shard's engine (tests/system/cluster/cluster_poisoned.cpp); empty: no
// wrapper.
using engine_wrapper =
    std::function<std::shared_ptr<engine::engine>(std::shared_ptr<engine::engine>)>;
int run_shard(const cluster_context& context, const role_arguments& arguments,
              const engine_wrapper& wrap);

// Registers the process and executes the command of [[workers]]; returns only on failure.
int run_worker(const role_arguments& arguments);

struct up_options {
  std::filesystem::path config;
  bool json = false;
};
class join_server;
// The root: starts everything, shows progress, serves until SIGTERM or ^C, drains. `server`: where
// other machines join; null: there are none.
int run_root(const cluster_contexts& all, const up_options& options, join_server* server = nullptr);

} // namespace baton::cluster
