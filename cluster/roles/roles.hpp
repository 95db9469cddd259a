// One function per role that a process can have (design: one binary, several roles). Each returns
// the exit status.
#pragma once

#include "cluster/files/exit_status.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/plan/addresses.hpp"
#include "cluster/plan/plan.hpp"
#include "cluster/plan/plan_note.hpp"
#include "runtime/engine/engine.hpp"
#include "schema/ids.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace baton::cluster {

// How the name of the memory ends in which a shard has its KV.
inline constexpr std::string_view kv_file_suffix = "-kv";

// What a child is told on its command line; all else it reads from the cluster's configuration.
struct role_arguments {
  std::filesystem::path config;  // the running cluster's copy
  epoch_id epoch;                // of this life
  std::uint32_t pipeline = 0;    // head, shard: whose
  std::uint32_t index = 0;       // agent: of the node; shard: in the plan; else: of those alike
  std::uint32_t generation = 0;  // shard: of that plan
  std::optional<int> kv_file;    // shard: memory that its agent holds for its KV
  std::optional<int> group_file; // shard: memory in which the ranks of its stage meet
  std::optional<int> copies;     // shard: where its next life waits (next_life.hpp)
};

// What is the same for all pipelines of a cluster, and all there is where worker models alone are
// served.
struct cluster_base {
  cluster_config config;
  plan_note made_with; // what the plans were made with, whatever became of it since
  run_dir dir;
  addresses where;
};

// Configuration, model and plan of one pipeline, as every role of a running cluster sees them. Its
// config is as this pipeline sees it.
struct cluster_context : cluster_base {
  model::description model;
  cluster_plan plan;                  // of the generation that serves
  std::optional<cluster_plan> coming; // while it changes

  std::uint32_t pipeline() const noexcept { return config.pipeline; }
  const pipeline_note& noted() const { return made_with.pipelines.at(pipeline()); }

  // Null if that generation neither serves nor comes.
  const cluster_plan* plan_of(std::uint32_t generation) const {
    if (plan.generation == generation)
      return &plan;
    return coming && coming->generation == generation ? &*coming : nullptr;
  }
};

inline stable_name name_of_head(const cluster_context& context) {
  return head_name(context.pipeline());
}

// A cluster and its pipelines, by number; all that is different between these is in their own.
struct cluster_contexts {
  cluster_base base;
  std::vector<cluster_context> pipelines;

  auto begin() const noexcept { return pipelines.begin(); }
  auto end() const noexcept { return pipelines.end(); }
  std::size_t size() const noexcept { return pipelines.size(); }
  const cluster_context& operator[](std::size_t i) const { return pipelines.at(i); }
};

// Of all pipelines, by number. Where `with` has none of them, the cluster comes up now; where it
// has some, only these are loaded: they were with models of the identities noted there (0: not yet
// looked at). `dir`: none is the configured one. Errors: as load_config, open_model,
// check_identity, describe, make_plan, check_fits_beside (of all of them) and addresses::create.
result<cluster_contexts> load_contexts(const std::filesystem::path& config, plan_note with,
                                       std::optional<run_dir> dir = std::nullopt);
// Whether it could come up with these machines; makes nothing. Errors: as load_contexts.
result<void> check_plans(cluster_config config, plan_note with);
// A cluster that is on this machine alone, and not yet up.
plan_note with_this_machine();
// Of a running cluster, by its copy of the configuration: the plan is that of its start; a child
// must not plan otherwise, or refuse itself, because memory is in use now. All that this machine
// has, or one, or no pipeline. Errors: as load_contexts; not_found (there is no such pipeline).
result<cluster_contexts> load_contexts_of_child(const std::filesystem::path& config_copy);
result<cluster_base> load_base_of_child(const std::filesystem::path& config_copy);
result<cluster_context> load_context_of_child(const std::filesystem::path& config_copy,
                                              std::uint32_t pipeline);

// plan_table and plan_json of all of them; of several, the JSON is {"pipelines": [...]}.
// `expected`: of each, or of none.
using expected_speeds = std::vector<std::vector<expected_speed>>;
std::string plan_table(const cluster_contexts& all, const expected_speeds& expected = {});
std::string plan_json(const cluster_contexts& all, const expected_speeds& expected = {});

int run_gateway(const cluster_base& cluster, const role_arguments& arguments);
int run_head(const cluster_context& context, const role_arguments& arguments);
int run_agent(const cluster_contexts& all, const role_arguments& arguments);

// What a test puts around a shard's engine (tests/system/cluster/cluster_poisoned.cpp); none: the
// engine as it is.
using engine_wrapper =
    std::function<std::shared_ptr<engine::engine>(std::shared_ptr<engine::engine>)>;
int run_shard(const cluster_context& context, const role_arguments& arguments,
              const engine_wrapper& wrap);

// Notes itself, and becomes the command of [[workers]]: it returns only if that cannot be.
int run_worker(const role_arguments& arguments);

struct up_options {
  std::filesystem::path config;
  bool json = false;
};
class join_desk;
// The root: starts everything, shows progress, serves until SIGTERM or ^C, drains. `desk`: where
// other machines join; null: there are none.
int run_root(const cluster_contexts& all, const up_options& options, join_desk* desk = nullptr);

} // namespace baton::cluster
