// Connects the supervisor actor to real processes: their command line, incarnation and memory, and
// the report of their end.
#pragma once

#include "actors/supervision/supervisor.hpp"
#include "cluster/files/incarnation_clock.hpp"
#include "cluster/files/memory_file.hpp"
#include "cluster/process/child.hpp"
#include "cluster/process/standby.hpp"
#include "cluster/roles/roles.hpp"

namespace baton::cluster {

class child_launcher {
public:
  // `watch` must outlive this object and be destroyed before the actor system. `config` is the
  // running cluster's copy. `incarnations` provides the children's incarnations.
  child_launcher(child_watch& watch, const cluster_contexts& all, std::filesystem::path config,
                 incarnation_clock& incarnations);

  // Sets adopt, start, stop, now and next_incarnation.
  void serve(actors::supervisor_config& config);
  // Allows shards of this plan to be started as well. Any thread.
  void know(const cluster_plan& plan);
  // Drops the state of a child that will not be restarted. Called by the supervisor.
  void forget(const actors::child_spec& spec);
  // Called for each end before the supervisor, on the watching thread. Set before the first start.
  void observe(std::function<void(const actors::child_exited&)> ends) {
    observer_ = std::move(ends);
  }
  // Delivers ends to this supervisor, including those that came before the call.
  void reports_to(actors::supervisor_actor supervisor);

private:
  std::uint32_t pipeline_of(const actors::child_spec& spec);
  std::optional<actors::left_child> adopt(const actors::child_spec& spec);
  result<std::int32_t> start(const actors::child_spec& spec, incarnation_id incarnation);
  result<std::int32_t> start_shard(const actors::child_spec& spec, incarnation_id incarnation,
                                   launch what);
  child_watch::ended ends_of(const actors::child_spec& spec, incarnation_id incarnation);
  int kv_file_of(const actors::child_spec& spec);
  int group_file_of(const actors::child_spec& spec);
  result<memory_file> make_group_file(process_id leader);
  void restart_separated_ranks();
  bool abandon(const actors::child_spec& spec);
  void check_memory(process_id shard, incarnation_id incarnation, const child_end& how);
  void ended(actors::child_exited what);

  child_watch& watch_;
  run_dir dir_;
  std::filesystem::path config_;
  incarnation_clock& incarnations_;
  std::function<void(const actors::child_exited&)> observer_; // may be empty
  std::mutex mutex_;
  std::optional<actors::supervisor_actor> supervisor_;
  std::vector<actors::child_exited> early_;
  std::map<std::uint32_t, std::uint32_t> pipelines_; // by generation
  std::map<process_id, memory_file> kv_files_;       // of shards: their KV outlives them
  std::map<process_id, std::uint32_t> widths_;       // by rank 0: shards of its stage, if several
  std::map<process_id, process_id> leaders_;         // by shard: rank 0 of its stage
  std::map<process_id, memory_file>
      group_files_;                            // by rank 0: memory that the ranks of a stage share
  std::map<process_id, std::int32_t> adopted_; // shards that another agent started
  struct latest_incarnation {
    std::int32_t pid = 0;
    incarnation_id incarnation;
  };
  std::map<process_id, latest_incarnation> now_;   // by shard: its latest incarnation
  std::map<process_id, standby_channel> standbys_; // by shard: waits to become its next incarnation
};

} // namespace baton::cluster
