// Stage 0 of two, alone: which steps of a new epoch it computes, and of which it sends the rows of
// the last epoch again.
#include "actors/scheduler.hpp"
#include "actors/stage.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

using namespace baton;
using namespace baton::actors;

namespace {

// Computes nothing. Begins a step ahead, which remains busy as long as the test wants.
class begin_engine final : public engine::engine {
public:
  explicit begin_engine(std::uint32_t state_slots) {
    limits_.state_slots = state_slots;
    limits_.hidden_size = 1;
  }
  const baton::engine::capacity& limits() const noexcept override { return limits_; }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> /*activations*/) override {
    ran.push_back(batch.batch);
    rows_.assign(batch.rows(), 1.0F);
    baton::engine::step_output out;
    out.activations = rows_;
    return out;
  }
  bool begin(const micro_batch& batch, std::span<const float> /*activations*/) override {
    begun.push_back(batch.batch);
    return true;
  }
  std::uint32_t begun_max() const noexcept override { return 1; }
  bool is_busy() override { return polls_busy > 0 && polls_busy-- > 0; }

  std::vector<batch_id> ran, begun;
  std::uint64_t polls_busy = 0;

private:
  baton::engine::capacity limits_;
  std::vector<float> rows_;
};

stage_actor::behavior_type next_stage(stage_actor::pointer, std::vector<batch_id>* passed) {
  return {[](const open_epoch&) {}, [passed](micro_batch& m) { passed->push_back(m.batch); },
          [](const sampled&) {}, [](const peer_up&) {}, [](const peer_down&) {}};
}

scheduler_actor::behavior_type deaf_scheduler(scheduler_actor::pointer, int) {
  return {[](const reserve&) {},      [](const admit&) {},       [](const cancel&) {},
          [](const resume&) {},       [](const sampled&) {},     [](const stage_ready&) {},
          [](const epoch_opened&) {}, [](const generations&) {}, [](const load_refused&) {},
          [](const peer_up&) {},      [](const peer_down&) {},   [](const drain&) {},
          [](const tick&) {}};
}

struct lone_stage {
  static constexpr process_id head{2}, first{1024}, second{1025};

  explicit lone_stage(std::uint32_t state_slots)
      : engine(std::make_shared<begin_engine>(state_slots)) {
    config.set("scheduler.policy", caf::atom("testing"));
    system = std::make_unique<caf::actor_system>(config);
    behind = system->spawn(next_stage, &passed);
    stage_config c;
    c.stages = 2;
    c.head = head;
    c.peers.stage = [this](process_id) { return behind; };
    c.connect = [](const stage_address&) {};
    c.announcement.block_positions = 4;
    c.announcement.state_slots = state_slots;
    c.engine = engine;
    c.now_micros = [] { return std::uint64_t{0}; };
    c.scheduler = system->spawn(deaf_scheduler, 0);
    scheduler = c.scheduler;
    stage = system->spawn(actors::stage, c);
    caf::anon_send(stage, peer_up{{second, incarnation_id{1}, role::shard, "s", "", "", 0}});
  }
  ~lone_stage() {
    for (auto a : {caf::actor_cast<caf::actor>(stage), caf::actor_cast<caf::actor>(behind),
                   caf::actor_cast<caf::actor>(scheduler)})
      caf::anon_send_exit(a, caf::exit_reason::kill);
    engine->polls_busy = 0;
    run();
    stage = behind = nullptr;
    scheduler = nullptr;
  }

  void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler()).run(); }
  void run_some(int turns) {
    auto& all = dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler());
    while (turns-- > 0 && all.try_run_once()) {
    }
  }
  void open(std::uint64_t epoch) {
    open_epoch m;
    m.epoch = {epoch};
    m.stages = {{first, incarnation_id{1}, ""}, {second, incarnation_id{1}, ""}};
    m.width = 1;
    caf::anon_send(stage, m);
    now = {epoch};
  }
  void send(std::uint64_t batch, std::uint32_t position, std::uint32_t from, std::uint32_t to) {
    micro_batch m;
    m.batch = {batch};
    m.epoch = now;
    m.slices = {{{{7}, 0}, position, 2, false, {0, 1}}};
    m.slices[0].state_from = from;
    m.slices[0].state_to = to;
    m.tokens = {1, 2};
    caf::anon_send(stage, std::move(m));
  }

  std::shared_ptr<begin_engine> engine;
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  stage_actor stage, behind;
  scheduler_actor scheduler;
  std::vector<batch_id> passed;
  epoch_id now;
};

// Whether the engine runs a step again that it ran in the last epoch. Another one was begun behind
// it, or not.
bool is_run_again(std::uint32_t state_slots, bool is_another_begun) {
  const std::uint32_t states = state_slots > 0 ? 1 : 0;
  lone_stage s(state_slots);
  s.open(1);
  s.send(1, 0, 0, states);
  s.run();
  CHECK(s.passed == std::vector<batch_id>{{1}});
  if (is_another_begun) {
    s.engine->polls_busy = 1000;
    s.send(2, 2, states, 2 * states);
    s.run_some(20);
    CHECK(s.engine->begun.back() == batch_id{2});
  }
  s.open(2);
  s.run();
  s.engine->polls_busy = 0;
  s.send(3, 0, 0, states);
  s.run();
  CHECK(s.passed == std::vector<batch_id>{{1}, {3}});
  return s.engine->ran.back() == batch_id{3};
}

} // namespace

TEST_CASE("rows of the last epoch are sent again, unless a begun step may have changed a state") {
  CHECK_FALSE(is_run_again(0, false));
  CHECK_FALSE(is_run_again(0, true));
  CHECK_FALSE(is_run_again(8, false));
  CHECK(is_run_again(8, true));
}
