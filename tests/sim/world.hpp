// The whole cluster in one process: the real actors, links and codec over toy engines, CAF's
// testing scheduler, a simulated network and clock. One seed draws which ready actor or message
// goes next and which fault strikes.
#pragma once

#include "actors/interfaces.hpp"
#include "cluster/exchange.hpp"
#include "runtime/text/tokenizer.hpp"
#include "tests/sim/client.hpp"
#include "tests/support/sim_bus.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <map>
#include <memory>
#include <random>

namespace baton::sim {

inline constexpr node_id head_node{2};
inline constexpr node_id gateway_node{3};
inline constexpr node_id shard_node(stage_index stage) {
  return node_id{1024 + stage};
}

struct world_options {
  std::uint64_t seed = 1;
  stage_index stages = 2;
  std::uint32_t blocks = 24; // few: preemption happens
  std::uint32_t swap_blocks = 0;
  std::uint32_t slots = 4;
  bool use_job_ticket = false;
};

class world {
public:
  explicit world(const world_options& options);
  ~world();

  // -- faults --
  void crash(node_id node);   // kill -9
  void restart(node_id node); // a new life; nothing if it is alive
  bool is_alive(node_id node) const { return lives_.contains(node); }
  testing::sim_network& network() { return network_; }

  // -- clients --
  client& open(ids_prompt input, std::uint32_t tokens_max, std::uint64_t seed = 0);
  void leave(client& c);
  std::vector<std::unique_ptr<client>>& clients() { return clients_; }

  // -- time --
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  // One ready actor or one message, chosen by the seed; false if nothing is ready now.
  bool step();
  // Lets simulated time pass, running whatever becomes ready, with all checks.
  void run_for(std::chrono::milliseconds span);
  // Until every client that stayed has its end; false after `span`.
  bool run_until_ended(std::chrono::milliseconds span);

  const engine::toy_model& toy() const { return toy_; }
  const load_report& load() const { return load_; }
  phase stands() const { return stands_; }
  // Everything that broke a promise so far, of all clients.
  std::vector<std::string> broken();

private:
  struct life {
    std::unique_ptr<cluster::bus> wire;
    std::unique_ptr<cluster::exchange> links;
    std::vector<caf::actor> actors;
    std::function<void()> tick;
  };
  struct memory_of_stage {
    std::shared_ptr<engine::toy_engine> engine;
    std::uint64_t life = 0;
  };
  life& begin(node_id node, role r, const std::string& name);
  void start_head();
  void start_gateway();
  void start_shard(stage_index stage);
  template <class Handle>
  Handle keep(life& l, Handle actor);
  template <class Handle>
  void tell_peers(life& l, Handle actor);
  caf::scheduler::test_coordinator& coordinator();
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
  std::map<node_id, life> lives_;
  std::map<stage_index, memory_of_stage> kept_;
  std::map<node_id, std::string> endpoints_;
  std::uint64_t last_epoch_ = 0;
  std::shared_ptr<gateway::board> board_;
  std::optional<gateway::desk_actor> desk_;
  std::vector<std::unique_ptr<client>> clients_;
  load_report load_;
  phase stands_ = phase::starting;
};

} // namespace baton::sim
