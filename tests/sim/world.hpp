// The whole cluster in one process: the real actors, links and codec over toy engines, CAF's
// testing scheduler, a simulated network and clock. One seed draws the next ready actor or message
// and the faults. The invariants are checked after every step (promises.cpp).
#pragma once

#include "actors/detokenizer.hpp"
#include "actors/scheduler.hpp"
#include "actors/stage.hpp"
#include "actors/supervision/supervisor.hpp"
#include "cluster/bus/message_router.hpp"
#include "cluster/membership/generation_registry.hpp"
#include "cluster/membership/on_demand_models.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "tests/sim/client.hpp"
#include "tests/sim/engine.hpp"
#include "tests/sim/group.hpp"
#include "tests/sim/promises.hpp"
#include "tests/support/sim_bus.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <map>
#include <memory>
#include <random>
#include <set>

namespace baton::sim {

inline constexpr process_id root_process{1};
inline constexpr process_id head_process{2};
inline constexpr process_id gateway_process{3};
using shard_index = std::uint32_t;                // [stage * width + rank]
inline constexpr std::uint32_t shards_max = 1024; // of a generation
inline constexpr process_id shard_process(shard_index shard, std::uint32_t generation = 0) {
  return process_id{1024 + generation * shards_max + shard};
}
inline constexpr shard_index shard_of(process_id process) {
  return (process.value - 1024) % shards_max;
}
inline constexpr std::uint32_t generation_of(process_id process) {
  return (process.value - 1024) / shards_max;
}
// Layers of the toy model, or of one for each stage; the shards of a stage have some of them.
inline constexpr std::uint32_t layers_of_toy = 4;

// Fault of a shard at a step of its engine. `kill`: from outside, so that its KV is trusted.
// `group`: the ranks of its stage cannot reduce (NCCL may refuse a communicator).
enum class step_fault : std::uint8_t { none, error, exception, death, kill, no_memory, group };

// How a generation partitions the model: the first layers of its stages, and the ranks of each.
struct layout {
  std::vector<std::uint32_t> first_layers;
  std::uint32_t width = 1;
};

inline constexpr std::uint32_t max_model_len = 96; // positions of a sequence

struct world_options {
  std::uint64_t seed = 1;
  stage_index stages = 2;
  std::uint32_t width = 1;   // ranks of each stage
  std::uint32_t blocks = 24; // few: causes preemption
  std::uint32_t swap_blocks = 0;
  std::uint32_t slots = 4;
  std::uint32_t queue_max = 128;
  std::uint64_t token_budget = 0; // limit of the tokens of running requests; 0: none
  std::uint32_t drafts = 0;
  std::uint32_t state_slots = 0; // above 0: the model has recurrent states
  bool run_ahead = true;
  bool prefix_caching = true;
  bool by_priority = false;
  bool use_job_ticket = false;
  bool pools = true;                        // the engines make embeddings
  bool engines_begin = false;               // steps ahead of the request for them
  std::uint64_t window_bytes = 64ull << 20; // of each link
  // The processes are children of a root, whose supervisor restarts them.
  bool supervised = false;
  actors::restart_intensity intensity{20, std::chrono::seconds(60)}; // of each child
  // The model is loaded by requests, and unloaded after idle_timeout. Requires: supervised.
  bool on_demand = false;
  std::chrono::milliseconds idle_timeout{300};
  std::set<process_id> late = {}; // not started at first
  // Called at each start of an actor; its process dies there if true.
  std::function<bool()> dies_at_start = nullptr;

  shard_index shards() const noexcept { return stages * width; }
};
// Draws a different cluster for each seed.
world_options drawn_options(std::uint64_t seed);
// The same with the real supervisor.
world_options supervised_options(std::uint64_t seed);

class world {
public:
  explicit world(const world_options& options);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  // -- faults --
  void crash(process_id process);   // kill -9
  void restart(process_id process); // a new incarnation; nothing if it is alive
  bool is_alive(process_id process) const { return running_.contains(process); }
  void freeze(process_id process);  // SIGSTOP: its actors and its links stand still
  void stick(shard_index shard);    // its engine hangs in a step; the rest of the process runs
  void release(process_id process); // ends either
  // The shard's memory is gone, as when the agent that holds it dies: a live shard is killed.
  void lose_memory(process_id process);
  testing::sim_network& network() { return network_; }
  // Called before each step of an engine.
  std::function<step_fault(shard_index, const micro_batch&)> on_step;
  // Called whenever a rank of that stage enters its group: true if there is no memory to meet in.
  std::function<bool(stage_index)> refuses_group;
  // Called whenever the root is to load the model on demand: true if it cannot.
  std::function<bool()> refuses_load;
  // A process that dies by itself restarts after this time, if it has no supervisor.
  std::chrono::milliseconds revives_after{40};

  // -- clients --
  client& open(client_plan plan);
  void leave(client& c);
  std::vector<std::unique_ptr<client>>& clients() { return clients_; }
  void drain(); // of the head, as before a shutdown

  // -- the plan --
  // The root begins another generation with this layout; false if it cannot. Requires: supervised.
  bool repartition(layout next);
  // The same in place of the serving one, as when a machine is lost.
  bool replace(layout next);
  // The last record of the root.
  const cluster::recorded_generations& plan() const { return noted_; }
  std::vector<process_id> planned_shards() const;

  // -- time --
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  // One ready actor or one message, chosen by the seed; false if nothing is ready now.
  bool step();
  // Lets simulated time pass, running all ready work, with all checks.
  void run_for(std::chrono::milliseconds span);
  // Runs until every client that stayed has its end; false after `span`.
  bool run_until_ended(std::chrono::milliseconds span);
  // Runs until `is_so`, which is called after every single step; false after `span`.
  bool run_until(const std::function<bool()>& is_so, std::chrono::milliseconds span);
  // Others run while one process waits within a step, until `is_over` or for `most`; no process
  // dies or restarts before that. True: it is over.
  bool go_on(const std::function<bool()>& is_over, std::chrono::milliseconds most);
  cluster::instant now() const { return network_.now(); }

  // -- what there is to see --
  const world_options& options() const { return options_; }
  const engine::toy_model& toy() const { return toy_; }
  const load_report& load() const { return load_; }
  phase stands() const { return stands_; }
  std::size_t open_clients() const; // that stayed and have no end yet
  // Called when the world is idle.
  void at_rest() { promises_.at_rest(); }
  // All promises broken so far.
  std::vector<std::string> broken() const;
  // A digest of all events so far: equal for equal seeds.
  std::uint64_t trace() const { return trace_ ^ network_.trace(); }

  struct running_process {
    std::unique_ptr<cluster::bus> wire;
    std::unique_ptr<cluster::message_router> links;
    std::vector<caf::actor> actors;
    std::function<void()> tick;
    bool is_frozen = false;
    bool is_stuck = false; // only its actors
  };
  const std::map<process_id, running_process>& running() const { return running_; }
  // Null if it is not alive or has not handled its first message.
  const actors::scheduler_state* scheduler() const;
  const actors::detokenizer_state* detokenizer() const;
  const gateway::gateway_state* gateway_state() const {
    return is_alive(gateway_process) ? gateway_state_.get() : nullptr;
  }
  const std::vector<std::string>& supervised() const { return supervised_; }
  const std::optional<actors::supervisor_actor>& supervisor() const { return supervisor_; }
  bool is_anyone_held() const;
  // Null: the model is always loaded, or there is no root.
  const cluster::on_demand_models* on_demand() const { return on_demand_ ? &*on_demand_ : nullptr; }
  // Shards that did not find the KV they were to take over.
  std::uint64_t takes_failed() const { return takes_failed_; }

private:
  struct memory_of_shard {
    std::shared_ptr<engine::toy_engine> engine;
    std::uint64_t kv_incarnation = 0;
    bool is_distrusted = false; // its process ended itself, and may have written anywhere before
  };
  // world_processes.cpp
  running_process& begin(process_id process, role r, const std::string& name);
  void start(process_id process);
  void start_root();
  void start_head();
  void start_gateway();
  void start_shard(process_id process);
  void publish_plan(); // by the root, which has recorded it
  actors::wanted_children wanted() const;
  void start_on_demand(); // in the root
  void decide_loads();
  std::shared_ptr<sim_group> join_group(process_id leader, const sim_group::place& where);
  result<void> before_step(process_id shard, const micro_batch& batch);
  template <class Handle>
  Handle keep(running_process& l, Handle actor);
  template <class Handle>
  void forward_peer_events(running_process& l, Handle actor);

  caf::scheduler::test_coordinator& coordinator();
  std::set<const caf::resumable*> held_jobs() const; // of frozen or stuck processes
  bool run_job();
  void strike(); // kills doomed processes and restarts those that are due
  void let_time_pass(cluster::instant until);
  void tick_all();
  void bring_back_clients();
  double seconds() const {
    return std::chrono::duration<double>(network_.now().time_since_epoch()).count();
  }

  world_options options_;
  engine::toy_model toy_;
  std::mt19937_64 random_;
  testing::sim_network network_;
  std::shared_ptr<const text::tokenizer> words_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::map<process_id, running_process> running_;
  std::map<process_id, memory_of_shard> kept_;
  std::map<process_id, std::shared_ptr<stage_group>> groups_; // by rank 0
  bool begin_generation(layout cut, bool is_replacement);

  std::map<std::uint32_t, layout> layouts_; // by generation
  cluster::recorded_generations noted_;
  std::optional<cluster::generation_registry> book_;   // the root's
  std::optional<cluster::on_demand_models> on_demand_; // the root's
  layout loaded_;                                      // of the model on demand
  std::map<process_id, std::string> endpoints_;
  std::uint64_t last_epoch_ = 0;
  std::map<process_id, incarnation_id>
      given_incarnations_; // by the supervisor, for the next incarnation
  std::shared_ptr<gateway::gateway_state> gateway_state_;
  std::optional<gateway::pipeline_client_actor> pipeline_client_;
  std::optional<actors::scheduler_actor> scheduler_;
  std::optional<actors::detokenizer_actor> detokenizer_;
  std::optional<actors::supervisor_actor> supervisor_;
  std::set<process_id> doomed_;
  std::map<process_id, cluster::instant> revivals_;
  std::vector<std::string> supervised_; // "start head", "stop head", "stopped" ...
  std::int32_t last_pid_ = 0;
  std::vector<std::unique_ptr<client>> clients_;
  load_report load_;
  phase stands_ = phase::starting;
  promises promises_{*this};
  std::uint64_t trace_ = 0;
  std::uint64_t steps_at_once_ = 0; // while the clock stands still
  cluster::instant tick_due_{};
  int waiting_within_ = 0; // steps
  std::uint64_t takes_failed_ = 0;
};

} // namespace baton::sim
