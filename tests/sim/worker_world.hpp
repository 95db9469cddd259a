// One worker model: the real pool over simulated worker processes, clients and a root. A seed draws
// the next actor, the faults of the processes, and the limits.
#pragma once

#include "gateway/workers/worker_pool.hpp"

#include <caf/scheduler/test_coordinator.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace baton::sim {

struct worker_faults {
  bool kills = false;
  bool hangs = false;
  bool raves = false; // pieces out of order
};

class worker_world {
public:
  worker_world(std::uint64_t seed, worker_faults faults);
  ~worker_world();

  // Requests arrive, processes work and fail, time passes.
  void live(int steps);
  // Runs without further faults until all requests have ended, within a bound.
  void settle();
  // A description of the first promise that does not hold.
  std::optional<std::string> broken() const;

  // Requests with such a number end every process that begins them.
  static bool is_poison(std::uint64_t request) noexcept { return request % 13 == 5; }

private:
  using incarnation = gateway::worker_incarnation;
  struct job {
    std::uint64_t request = 0;
    std::uint32_t next = 0;
    bool is_cancelled = false;
  };
  struct process {
    incarnation who;
    bool is_alive = false;
    bool hangs = false;
    bool is_mad = false;
    std::deque<message> inbox;
    std::vector<job> jobs;
  };
  struct client {
    std::shared_ptr<gateway::stream> out;
    std::uint32_t next = 0; // piece that it waits for
    int ends = 0;
    bool has_left = false;
    bool reads = true;
    std::optional<errc> failure;
  };

  std::uint64_t draw(std::uint64_t below);
  void draw_queue();
  std::string drawn_parameters();
  void run();
  template <class M>
  void deliver(M m);
  void step();
  void ask();
  void leave();
  void strike();
  void act(process& p);
  void work(process& p);
  void end(process& p);
  void start(process& p);
  void obey_root();
  void read(client& c);
  void look_at_order();
  void read_all();
  void pass(std::chrono::milliseconds time);
  void note(std::string what);
  process* find(incarnation who);

  std::mt19937_64 random_;
  const worker_faults faults_; // of `live`
  caf::actor_system_config options_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* time_ = nullptr;
  std::shared_ptr<gateway::gateway_state> facts_;
  std::shared_ptr<gateway::worker_load> load_;
  schedule::worker_limits limits_;
  gateway::worker_pool_actor pool_;
  std::vector<process> processes_;
  std::vector<client> clients_;
  std::deque<status> reports_; // on their way to the root
  std::uint64_t epochs_ = 0;
  std::optional<std::string> broken_;
};

} // namespace baton::sim
