// A stage shared by several ranks. Rank 0 forwards each message in order before it runs it, and
// answers for all. The others run the messages of the epoch's leader, and answer nothing.
#include "actors/stage.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

using namespace baton;
using namespace baton::actors;

namespace {

constexpr process_id head_process{2};
constexpr process_id rank_node(std::uint32_t rank) {
  return process_id{1024 + rank};
}

// Events in order: "run 7", "to 1: 7", "sampled 7", "ready", "opened 3".
using story = std::vector<std::string>;

class scripted_engine final : public engine::engine {
public:
  explicit scripted_engine(story& s) : story_(s) {}
  const baton::engine::capacity& limits() const noexcept override { return limits_; }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float>) override {
    story_.push_back(fmt::format("run {}", batch.batch.value));
    if (failure)
      return *failure;
    return baton::engine::step_output{};
  }
  std::optional<error> failure;

private:
  story& story_;
  baton::engine::capacity limits_;
};

class scripted_group final : public collective::group {
public:
  explicit scripted_group(story& s) : story_(s) {}
  result<void> enter(epoch_id epoch) override {
    story_.push_back(fmt::format("enter {}", epoch.value));
    if (refusal)
      return *refusal;
    is_lost = false;
    return {};
  }
  bool is_broken() const noexcept override { return is_lost; }
  std::optional<error> refusal;
  bool is_lost = true;

private:
  story& story_;
};

scheduler_actor::behavior_type head(scheduler_actor::pointer, story* s) {
  return {
      [](const reserve&) {},
      [](const admit&) {},
      [](const cancel&) {},
      [](const resume&) {},
      [s](const sampled& m) {
        if (m.failure && m.failure->code == errc::stale_epoch)
          s->push_back(fmt::format("epoch {} is lost: {}", m.epoch.value, m.failure->message));
        else
          s->push_back(fmt::format("sampled {}{}", m.batch.value,
                                   m.failure ? ": " + m.failure->message : std::string()));
      },
      [s](const stage_ready& m) { s->push_back(fmt::format("rank {} ready", m.rank)); },
      [s](const epoch_opened& m) {
        s->push_back(fmt::format("rank {} opened {}", m.rank, m.epoch.value));
      },
      [](const generations&) {},
      [](const load_refused&) {},
      [](const peer_up&) {},
      [](const peer_down&) {},
      [](const drain&) {},
      [](const tick&) {},
  };
}

stage_actor::behavior_type other_rank(stage_actor::pointer, story* s, std::uint32_t rank) {
  return {
      [](const open_epoch&) {},
      [s, rank](micro_batch& m) { s->push_back(fmt::format("to {}: {}", rank, m.batch.value)); },
      [](const sampled&) {},
      [](const peer_up&) {},
      [](const peer_down&) {},
  };
}

// One rank of a stage of three, with all its peers.
struct rank_world {
  story happened;
  std::shared_ptr<scripted_engine> engine = std::make_shared<scripted_engine>(happened);
  std::shared_ptr<scripted_group> group = std::make_shared<scripted_group>(happened);
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  scheduler_actor scheduler;
  std::map<process_id, stage_actor> others;
  stage_actor own;

  explicit rank_world(std::uint32_t rank) {
    config.set("scheduler.policy", caf::atom("testing"));
    system = std::make_unique<caf::actor_system>(config);
    scheduler = system->spawn(head, &happened);
    for (std::uint32_t other = 0; other < 3; ++other)
      others[rank_node(other)] = system->spawn(other_rank, &happened, other);
    stage_config c;
    c.rank = rank;
    c.width = 3;
    c.head = head_process;
    c.scheduler = scheduler;
    c.peers.stage = [this](process_id n) { return others.at(n); };
    c.connect = [this](const stage_address& other) { connect(other.process); };
    c.announcement.rank = rank;
    c.engine = engine;
    c.group = group;
    c.now_micros = [] { return std::uint64_t{0}; };
    own = system->spawn(actors::stage, c);
    run();
  }
  ~rank_world() {
    for (auto a : {caf::actor_cast<caf::actor>(own), caf::actor_cast<caf::actor>(scheduler)})
      caf::anon_send_exit(a, caf::exit_reason::kill);
    for (auto& [process, a] : others)
      caf::anon_send_exit(a, caf::exit_reason::kill);
    run();
    own = nullptr;
    scheduler = nullptr;
    others.clear();
  }

  void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler()).run(); }
  void connect(process_id process) {
    caf::anon_send(own, peer_up{{process, incarnation_id{5}, role::shard, "shard", "", "", 0}});
  }
  void open(std::uint64_t epoch, std::uint32_t rank) {
    open_epoch order{epoch_id{epoch}, 0, {}, rank, 3, std::nullopt};
    for (std::uint32_t i = 0; i < 3; ++i)
      order.stages.push_back({rank_node(i), incarnation_id{5}, ""});
    caf::anon_send(own, order);
    run();
  }
  void give(std::uint64_t batch, std::uint64_t epoch) {
    micro_batch m;
    m.batch = batch_id{batch};
    m.epoch = epoch_id{epoch};
    caf::anon_send(own, std::move(m));
    run();
  }
  story take_story() { return std::exchange(happened, {}); }
};

const error deadline = fail(errc::deadline_exceeded, "rank 2 did not come");

} // namespace

TEST_CASE("rank 0 starts the epoch, opens once the others are linked, and forwards each step") {
  rank_world w(0);
  w.open(3, 0);
  CHECK(w.take_story() == story{"enter 3", "rank 0 opened 3"});
  w.give(7, 3);
  w.give(8, 3);
  CHECK(w.take_story() == story{"run 7", "to 1: 7", "to 2: 7", "sampled 7", "run 8", "to 1: 8",
                                "to 2: 8", "sampled 8"});
  w.give(9, 2); // of an earlier epoch
  CHECK(w.take_story().empty());
  caf::anon_send(w.own, peer_down{rank_node(2), incarnation_id{5}, "gone"});
  w.run();
  CHECK(w.take_story() == story{"epoch 3 is lost: process 1026 is down: gone", "rank 0 ready"});
  w.give(10, 3);
  CHECK(w.take_story().empty());
  w.connect(rank_node(2)); // back, but messages in flight to it are lost
  w.run();
  w.give(11, 3);
  CHECK(w.take_story().empty());
  w.open(4, 0);
  CHECK(w.take_story() == story{"enter 4", "rank 0 opened 4"});
}

TEST_CASE("another rank enters with the first micro-batch, runs each and answers none") {
  rank_world w(1);
  w.open(3, 1);
  CHECK(w.take_story() == story{"rank 1 opened 3"});
  w.give(7, 3);
  w.give(8, 3);
  CHECK(w.take_story() == story{"enter 3", "run 7", "run 8"});
  w.give(9, 2);
  CHECK(w.take_story().empty());
  w.open(4, 1);
  w.give(10, 3); // its epoch is over
  w.give(11, 4);
  CHECK(w.take_story() == story{"rank 1 opened 4", "enter 4", "run 11"});
}

TEST_CASE("a step that loses the group is no failure of a request: rank 0 reports it and asks for "
          "another epoch") {
  for (const std::uint32_t rank : {0U, 1U}) {
    CAPTURE(rank);
    rank_world w(rank);
    w.open(3, rank);
    w.give(7, 3);
    w.take_story();
    w.engine->failure = deadline;
    w.group->is_lost = true;
    w.give(8, 3);
    w.give(9, 3); // it has left the epoch
    CHECK(w.take_story() == (rank == 0
                                 ? story{"run 8", "to 1: 8", "to 2: 8",
                                         "epoch 3 is lost: rank 2 did not come", "rank 0 ready"}
                                 : story{"run 8"}));
    w.engine->failure.reset();
    w.open(4, rank);
    w.give(10, 4);
    CHECK(w.take_story() == (rank == 0 ? story{"enter 4", "rank 0 opened 4", "run 10", "to 1: 10",
                                               "to 2: 10", "sampled 10"}
                                       : story{"rank 1 opened 4", "enter 4", "run 10"}));
  }
}

TEST_CASE(
    "a step that fails equally at every rank is answered by rank 0, and the epoch continues") {
  for (const std::uint32_t rank : {0U, 1U}) {
    CAPTURE(rank);
    rank_world w(rank);
    w.open(3, rank);
    w.engine->failure = fail(errc::invalid_value, "no such block");
    w.give(7, 3);
    w.engine->failure.reset();
    w.take_story();
    w.give(8, 3);
    CHECK(w.take_story() ==
          (rank == 0 ? story{"run 8", "to 1: 8", "to 2: 8", "sampled 8"} : story{"run 8"}));
  }
}

TEST_CASE("an epoch that cannot be entered is lost: rank 0 reports it, another rank runs nothing") {
  rank_world leader(0);
  leader.group->refusal = fail(errc::io_failed, "no memory for the group");
  leader.open(3, 0);
  leader.take_story();
  leader.give(7, 3);
  CHECK(leader.take_story() ==
        story{"enter 3", "epoch 3 is lost: no memory for the group", "rank 0 ready"});
  rank_world other(1);
  other.group->refusal = fail(errc::stale_epoch, "rank 0 is in epoch 4");
  other.open(3, 1);
  other.take_story();
  other.give(7, 3);
  other.give(8, 3); // it has left the epoch
  CHECK(other.take_story() == story{"enter 3"});
}

TEST_CASE("an order for another rank or width is refused") {
  rank_world w(1);
  w.open(3, 2);
  CHECK(w.take_story().empty());
  open_epoch narrow{epoch_id{3}, 0, {{rank_node(0), incarnation_id{5}, ""}, {}, {}},
                    1,           1, std::nullopt};
  caf::anon_send(w.own, narrow);
  w.run();
  CHECK(w.take_story().empty());
}
