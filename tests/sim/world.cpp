#include "tests/sim/world.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::sim {
namespace {

constexpr std::chrono::milliseconds tick_interval{20};
// Far above the work that can be ready at one moment: beyond it messages circulate endlessly.
constexpr std::uint64_t steps_at_once_max = 200'000;

template <class State, class Handle>
const State* state_of(const std::optional<Handle>& handle) {
  if (!handle)
    return nullptr;
  auto* actor = dynamic_cast<typename Handle::template stateful_pointer<State>>(
      caf::actor_cast<caf::abstract_actor*>(*handle));
  return actor ? &actor->state : nullptr;
}

} // namespace

world_options drawn_options(std::uint64_t seed) {
  std::mt19937_64 random(seed * 0xD1342543DE82EF95ull + 7);
  auto draw = [&](std::uint64_t below) { return static_cast<std::uint32_t>(random() % below); };
  world_options o;
  o.seed = seed;
  o.stages = 1 + draw(3);
  o.blocks = 24 + 4 * draw(5);
  o.swap_blocks = draw(2) * 20;
  o.slots = 2 + draw(4);
  o.drafts = draw(3) == 0 ? 1 + draw(3) : 0;
  o.run_ahead = draw(4) != 0;
  o.prefix_caching = draw(4) != 0;
  o.by_priority = draw(4) == 0;
  o.window_bytes = draw(2) == 0 ? 64ull << 20 : 1024ull << draw(3);
  o.width = draw(5) < 3 ? 1 : 2 + draw(4) / 3;
  o.engines_begin = draw(2) == 0;
  o.token_budget = draw(4) == 0 ? max_model_len + draw(2 * max_model_len) : 0;
  if (draw(2) == 0)
    o.state_slots = 2 + draw(4 * o.slots); // few: also sequences that fit otherwise wait
  return o;
}

world_options supervised_options(std::uint64_t seed) {
  auto o = drawn_options(seed);
  o.supervised = true;
  return o;
}

world::~world() {
  while (!running_.empty())
    crash(running_.begin()->first);
  pipeline_client_.reset();
  coordinator().run();
}

caf::scheduler::test_coordinator& world::coordinator() {
  return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
}

// -- Faults --

void world::crash(process_id process) {
  auto it = running_.find(process);
  if (it == running_.end())
    return;
  network_.crash(process);
  network_.thaw(process);
  it->second.links->stop();
  std::set<const caf::resumable*> dying;
  for (auto& a : it->second.actors) {
    dying.insert(dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(a)));
    caf::anon_send_exit(a, caf::exit_reason::kill);
  }
  if (process == gateway_process) {
    for (auto& c : clients_)
      if (!c->was_left && !c->lose_gateway(draw(2) == 0))
        c->was_left = !c->has_ended(); // it has no ticket yet: nothing was accepted
    pipeline_client_.reset();
  } else if (process == head_process) {
    scheduler_.reset();
    detokenizer_.reset();
  } else if (process == root_process) {
    supervisor_.reset();
    book_.reset();
    on_demand_.reset();
    promises_.on_root_lost();
    // A child that is being started dies with it.
    revivals_.clear();
    given_incarnations_.clear();
  }
  // Drops their pending work.
  coordinator().run_jobs_filtered([&](const caf::resumable* job) { return dying.contains(job); });
  const auto incarnation = it->second.links->self().incarnation;
  running_.erase(it);
  if (supervisor_) {
    promises_.on_exit(process);
    caf::anon_send(*supervisor_,
                   actors::child_exited{process, incarnation, "killed by signal 9", false});
  }
}

void world::restart(process_id process) {
  if (!is_alive(process))
    start(process);
}

void world::freeze(process_id process) {
  if (!is_alive(process))
    return;
  running_.at(process).is_frozen = true;
  network_.freeze(process);
}

void world::stick(shard_index shard) {
  if (is_alive(shard_process(shard)))
    running_.at(shard_process(shard)).is_stuck = true;
}

void world::release(process_id process) {
  network_.thaw(process);
  if (auto it = running_.find(process); it != running_.end())
    it->second.is_frozen = it->second.is_stuck = false;
}

void world::lose_memory(process_id process) {
  crash(process);
  kept_.erase(process);
}

bool world::is_anyone_held() const {
  return std::any_of(running_.begin(), running_.end(), [](const auto& entry) {
    return entry.second.is_frozen || entry.second.is_stuck;
  });
}

std::set<const caf::resumable*> world::held_jobs() const {
  std::set<const caf::resumable*> held;
  for (const auto& [process, l] : running_)
    if (l.is_frozen || l.is_stuck)
      for (const auto& a : l.actors)
        held.insert(dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(a)));
  return held;
}

void world::strike() {
  if (waiting_within_ > 0)
    return; // the waiting actor is in the middle of its handler
  for (auto process : std::exchange(doomed_, {})) {
    crash(process);
    if (!options_.supervised)
      revivals_[process] = now() + revives_after;
  }
  std::vector<process_id> due;
  for (const auto& [process, when] : revivals_)
    if (when <= now())
      due.push_back(process);
  for (auto process : due) {
    revivals_.erase(process);
    restart(process);
  }
}

std::vector<process_id> world::planned_shards() const {
  std::vector<process_id> all;
  const auto add = [&](const generation& g) {
    for (shard_index i = 0; i < g.stages * g.width; ++i)
      all.push_back(shard_process(i, g.number));
  };
  add(noted_.now.serving);
  if (noted_.now.coming)
    add(*noted_.now.coming);
  return all;
}

// -- Clients --

client& world::open(client_plan plan) {
  clients_.push_back(
      std::make_unique<client>(gateway_state_->next_number(), std::move(plan), toy_, *words_));
  gateway_state_->enter();
  caf::anon_send(*pipeline_client_, clients_.back()->request());
  return *clients_.back();
}

void world::leave(client& c) {
  c.was_left = true;
  if (pipeline_client_)
    caf::anon_send(*pipeline_client_,
                   gateway::close_request{c.number(), cancel_reason::client_gone});
}

void world::drain() {
  if (scheduler_)
    caf::anon_send(*scheduler_, baton::drain{});
}

std::size_t world::open_clients() const {
  return static_cast<std::size_t>(
      std::count_if(clients_.begin(), clients_.end(),
                    [](const auto& c) { return !c->was_left && !c->has_ended(); }));
}

// -- Time --

bool world::run_job() {
  auto& jobs = coordinator().jobs;
  std::vector<std::size_t> ready;
  const auto held = held_jobs();
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (!held.contains(jobs[i]))
      ready.push_back(i);
  if (ready.empty())
    return false;
  const auto chosen = ready[draw(ready.size())];
  trace_ = trace_ * 0x100000001B3ull + chosen * 31 + jobs.size();
  std::swap(jobs.front(), jobs[chosen]);
  const auto* job = jobs.front();
  coordinator().try_run_once();
  if (scheduler_ && job == dynamic_cast<const caf::resumable*>(
                               caf::actor_cast<caf::abstract_actor*>(*scheduler_)))
    promises_.after_scheduler();
  return true;
}

bool world::step() {
  ENSURE(++steps_at_once_ < steps_at_once_max, "messages go round for ever");
  const bool done = draw(2) == 0 ? run_job() || network_.step() : network_.step() || run_job();
  strike();
  return done;
}

// Clients whose gateway died resume as soon as one serves.
void world::bring_back_clients() {
  if (!pipeline_client_ || standing_of(*gateway_state_->look()).phase != phase::ready)
    return;
  for (auto& c : clients_)
    if (c->is_orphan() && !c->was_left && gateway_state_->enter()) {
      if (c->has_ticket())
        caf::anon_send(*pipeline_client_, c->come_back(gateway_state_->next_number()));
      else
        caf::anon_send(*pipeline_client_, c->ask_again(gateway_state_->next_number()));
    }
}

void world::tick_all() {
  bring_back_clients();
  for (auto& [process, l] : running_) {
    if (l.is_frozen)
      continue;
    l.links->tick(network_.now());
    if (l.tick)
      l.tick();
  }
}

// Advances to the next event that is due.
void world::let_time_pass(cluster::instant until) {
  steps_at_once_ = 0;
  auto next = std::min(until, tick_due_);
  if (auto due = network_.next_due())
    next = std::min(next, *due);
  auto by = std::chrono::ceil<std::chrono::milliseconds>(next - network_.now());
  network_.advance(std::max(by, std::chrono::milliseconds(1)));
  coordinator().advance_time(std::max(by, std::chrono::milliseconds(1)));
  for (auto& c : clients_)
    if (!c->was_left && !c->is_orphan() && !c->plan().reads_slowly)
      c->read();
  if (network_.now() >= tick_due_) {
    tick_all();
    promises_.after_tick();
    tick_due_ = network_.now() + tick_interval;
  }
}

void world::run_for(std::chrono::milliseconds span) {
  const auto until = network_.now() + span;
  while (network_.now() < until) {
    strike();
    while (step()) {
    }
    let_time_pass(until);
  }
}

bool world::run_until(const std::function<bool()>& is_so, std::chrono::milliseconds span) {
  const auto until = network_.now() + span;
  while (network_.now() < until) {
    strike();
    while (step())
      if (is_so())
        return true;
    let_time_pass(until);
  }
  return is_so();
}

bool world::go_on(const std::function<bool()>& is_over, std::chrono::milliseconds most) {
  const auto until = network_.now() + most;
  ++waiting_within_;
  while (!is_over() && network_.now() < until)
    if (!step())
      let_time_pass(until);
  --waiting_within_;
  return is_over();
}

bool world::run_until_ended(std::chrono::milliseconds span) {
  for (auto until = network_.now() + span; network_.now() < until;) {
    run_for(std::chrono::milliseconds(50));
    for (auto& c : clients_)
      if (!c->was_left && !c->is_orphan())
        c->read();
    if (open_clients() == 0)
      return true;
  }
  return false;
}

// -- What there is to see --

std::vector<std::string> world::broken() const {
  auto all = promises_.broken();
  for (const auto& c : clients_)
    for (const auto& b : c->broken())
      all.push_back(fmt::format("client {}: {}", c->number(), b));
  return all;
}

const actors::scheduler_state* world::scheduler() const {
  const auto* s = state_of<actors::scheduler_state>(scheduler_);
  return s && s->core ? s : nullptr;
}

const actors::detokenizer_state* world::detokenizer() const {
  return state_of<actors::detokenizer_state>(detokenizer_);
}

} // namespace baton::sim
