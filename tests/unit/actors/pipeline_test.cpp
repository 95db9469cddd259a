// The pipeline's life, state by state: it opens when all stages are there, and any stage that goes
// or comes anew closes it.
#include "actors/pipeline.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::actors;

namespace {

hello shard(std::uint32_t stage, std::uint64_t life) {
  return {node_id{100 + stage},
          epoch_id{life},
          role::shard,
          "shard",
          "ipc://s" + std::to_string(life),
          "b",
          1};
}
stage_ready ready(std::uint32_t stage, std::uint64_t life, std::uint32_t blocks = 8,
                  std::uint64_t hash = 7) {
  return {node_id{100 + stage}, epoch_id{life}, stage, 2, blocks, 64, hash, "toy"};
}

pipeline opened() {
  pipeline p(2, 1, epoch_id{50});
  p.on_up(shard(0, 1));
  p.on_up(shard(1, 2));
  REQUIRE(p.on_ready(ready(0, 1)));
  REQUIRE(p.open_if_complete().empty());
  REQUIRE(p.on_ready(ready(1, 2, 6)));
  REQUIRE(p.open_if_complete().size() == 2);
  REQUIRE_FALSE(p.on_opened({p.epoch(), 1}));
  REQUIRE(p.on_opened({p.epoch(), 0}));
  return p;
}

} // namespace

TEST_CASE("a pipeline opens once every stage is linked, ready and has opened the epoch") {
  auto p = opened();
  CHECK(p.current() == pipeline::state::open);
  CHECK(p.epoch() == epoch_id{51});
  CHECK(p.blocks() == 6);
  CHECK(p.first_stage() == node_id{100});
  CHECK(p.reason().empty());
}

TEST_CASE("orders name every stage's address in order") {
  pipeline p(2, 1, epoch_id{0});
  p.on_up(shard(0, 1));
  p.on_up(shard(1, 2));
  (void)p.on_ready(ready(1, 2));
  (void)p.on_ready(ready(0, 1));
  auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 2);
  CHECK(orders[1].node == node_id{101});
  CHECK(orders[1].what.stage == 1);
  CHECK(orders[1].what.stages[0].endpoint == "ipc://s1");
  CHECK(p.open_if_complete().empty()); // under way
}

TEST_CASE("a stage that goes down closes the epoch and its next life opens a newer one") {
  auto p = opened();
  CHECK(p.on_down(node_id{101}));
  CHECK(p.reason() == "waiting for the shard of stage 1");
  CHECK_FALSE(p.on_down(node_id{101}));
  CHECK_FALSE(p.on_opened({epoch_id{51}, 0}));
  p.on_up(shard(1, 9));
  REQUIRE(p.on_ready(ready(1, 9)));
  CHECK(p.open_if_complete().size() == 2);
  CHECK(p.epoch() == epoch_id{52});
}

TEST_CASE("a stage that announces itself again has forgotten its epoch") {
  auto p = opened();
  auto again = p.on_ready(ready(0, 1));
  REQUIRE(again);
  CHECK(again->closed);
  CHECK(p.open_if_complete().size() == 2);
}

TEST_CASE("an announcement of a life that is not linked does not open anything") {
  pipeline p(1, 1, epoch_id{0});
  p.on_up(shard(0, 1));
  auto r = ready(0, 2);
  r.stages = 1;
  REQUIRE(p.on_ready(r));
  CHECK(p.open_if_complete().empty());
}

TEST_CASE("stages of different models or pipelines are refused by name") {
  pipeline p(2, 1, epoch_id{0});
  REQUIRE(p.on_ready(ready(0, 1)));
  auto other = p.on_ready(ready(1, 2, 8, 8));
  REQUIRE_FALSE(other);
  CHECK(other.error().code == errc::version_mismatch);
  CHECK_FALSE(p.on_ready(ready(5, 2)));
}

TEST_CASE("an epoch knows whether a stage has another life than in the last open one") {
  auto p = opened();
  CHECK(p.has_new_life());
  REQUIRE(p.on_down(node_id{101})); // its link fell, it lives
  p.on_up(shard(1, 2));
  REQUIRE(p.on_ready(ready(1, 2)));
  REQUIRE(p.open_if_complete().size() == 2);
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  CHECK_FALSE(p.has_new_life());
  REQUIRE(p.on_down(node_id{101}));
  p.on_up(shard(1, 3));
  REQUIRE(p.on_ready(ready(1, 3)));
  REQUIRE(p.open_if_complete().size() == 2);
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  CHECK(p.has_new_life());
}

TEST_CASE("the KV is kept where each stage is the same process or has found its memory again") {
  const auto reopened = [](std::uint64_t life, std::uint64_t kv_before, std::uint64_t kv_after) {
    pipeline p(2, 1, epoch_id{50});
    const auto open = [&](std::uint64_t last_life, std::uint64_t kv_life) {
      p.on_up(shard(0, 1));
      p.on_up(shard(1, last_life));
      auto last = ready(1, last_life);
      last.kv_life = kv_life;
      REQUIRE(p.on_ready(ready(0, 1)));
      REQUIRE(p.on_ready(last));
      REQUIRE(p.open_if_complete().size() == 2);
      (void)p.on_opened({p.epoch(), 0});
      REQUIRE(p.on_opened({p.epoch(), 1}));
    };
    open(2, kv_before);
    CHECK_FALSE(p.keeps_kv());
    REQUIRE(p.on_down(node_id{101}));
    open(life, kv_after);
    return p.keeps_kv();
  };
  CHECK(reopened(2, 0, 0));
  CHECK(reopened(2, 9, 9));
  CHECK(reopened(3, 9, 9));
  CHECK_FALSE(reopened(3, 9, 8));
  CHECK_FALSE(reopened(3, 0, 0));
  CHECK_FALSE(reopened(3, 9, 0));
}

// Two stages of two ranks: seat s is rank s % 2 of stage s / 2, with the life s + 1.
struct seat_story {
  pipeline p{2, 2, epoch_id{50}};
  std::vector<std::uint64_t> lives{1, 2, 3, 4}, kv_lives{0, 0, 0, 0};

  stage_ready of(std::uint32_t seat) const {
    stage_ready r{node_id{100 + seat}, epoch_id{lives[seat]}, seat / 2, 2, 8, 64, 7, "toy"};
    r.kv_life = kv_lives[seat];
    r.rank = seat % 2;
    r.width = 2;
    return r;
  }
  void announce(std::uint32_t seat) {
    p.on_up(shard(seat, lives[seat]));
    REQUIRE(p.on_ready(of(seat)));
  }
  bool open() {
    for (const auto& order : p.open_if_complete())
      if (p.on_opened({order.what.epoch, order.what.stage, order.what.rank}))
        return true;
    return false;
  }
};

TEST_CASE("with several ranks a stage, the pipeline opens once every rank of every stage has") {
  seat_story s;
  for (const std::uint32_t seat : {3U, 0U, 1U}) {
    s.announce(seat);
    CHECK(s.p.open_if_complete().empty());
  }
  CHECK(s.p.reason() == "waiting for rank 0 of stage 1");
  s.announce(2);
  const auto orders = s.p.open_if_complete();
  REQUIRE(orders.size() == 4);
  for (std::uint32_t seat = 0; seat < 4; ++seat) {
    CHECK(orders[seat].node == node_id{100 + seat});
    CHECK(orders[seat].what.stage == seat / 2);
    CHECK(orders[seat].what.rank == seat % 2);
    CHECK(orders[seat].what.width == 2);
    CHECK(orders[seat].what.stages[seat].node == node_id{100 + seat});
  }
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 0, 0}));
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 0, 0})); // twice is once
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 1, 0}));
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 1, 2})); // no such rank
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 1, 1}));
  CHECK(s.p.on_opened({s.p.epoch(), 0, 1}));
  CHECK(s.p.first_stage() == node_id{100});
}

TEST_CASE("a rank that is lost closes the epoch, and KV is kept only if its own is") {
  for (const std::uint32_t victim : {0U, 1U, 2U, 3U})
    for (const std::uint64_t found : {9U, 8U}) {
      CAPTURE(victim);
      seat_story s;
      s.kv_lives = {9, 9, 9, 9};
      for (std::uint32_t seat = 0; seat < 4; ++seat)
        s.announce(seat);
      REQUIRE(s.open());
      CHECK(s.p.on_down(node_id{100 + victim}));
      s.lives[victim] = 20;
      s.kv_lives[victim] = found;
      s.announce(victim);
      REQUIRE(s.open());
      CHECK(s.p.has_new_life());
      CHECK(s.p.keeps_kv() == (found == 9));
    }
}

TEST_CASE("the blocks of a pipeline are those of the rank with the fewest") {
  seat_story s;
  for (std::uint32_t seat = 0; seat < 4; ++seat) {
    s.p.on_up(shard(seat, s.lives[seat]));
    auto ready = s.of(seat);
    ready.blocks = seat == 3 ? 5 : 8;
    REQUIRE(s.p.on_ready(ready));
  }
  REQUIRE(s.p.open_if_complete().size() == 4);
  CHECK(s.p.blocks() == 5);
}

TEST_CASE("a rank of a stage that is cut otherwise, or of another model, is refused by name") {
  seat_story s;
  s.announce(0);
  auto wider = s.of(1);
  wider.width = 3;
  CHECK_FALSE(s.p.on_ready(wider));
  auto beyond = s.of(1);
  beyond.rank = 2;
  CHECK_FALSE(s.p.on_ready(beyond));
  auto other = s.of(1);
  other.model_hash = 8;
  REQUIRE_FALSE(s.p.on_ready(other));
  CHECK(s.p.on_ready(other).error().code == errc::version_mismatch);
  CHECK(s.p.on_ready(s.of(1)));
}

TEST_CASE("an abandoned epoch is opened anew with the same stages under a later number") {
  auto p = opened();
  const auto before = p.epoch();
  p.abandon();
  CHECK(p.current() == pipeline::state::waiting);
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 2);
  CHECK(orders[0].what.epoch > before);
}

// -- Two generations --

namespace {

// The shard of a stage of generation 1, which has three.
hello newcomer(std::uint32_t stage, std::uint64_t life = 20) {
  return {node_id{200 + stage}, epoch_id{life + stage}, role::shard, "new", "ipc://n", "b", 1};
}
stage_ready new_ready(std::uint32_t stage, std::uint64_t life = 20) {
  stage_ready r{node_id{200 + stage}, epoch_id{life + stage}, stage, 3, 9, 64, 7, "toy"};
  r.generation = 1;
  return r;
}
const generations changing{{0, 2, {}}, generation{1, 3, {}}};

void announce_new(pipeline& p, std::uint32_t stage, std::uint64_t life = 20) {
  p.on_up(newcomer(stage, life));
  REQUIRE(p.on_ready(new_ready(stage, life)));
}

pipeline due() {
  auto p = opened();
  REQUIRE_FALSE(p.set_plan(changing));
  for (std::uint32_t stage = 0; stage < 3; ++stage) {
    CHECK_FALSE(p.is_switch_due());
    announce_new(p, stage);
  }
  REQUIRE(p.is_switch_due());
  return p;
}

pipeline switched() {
  auto p = due();
  p.switch_over();
  REQUIRE(p.open_if_complete().size() == 3);
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    CHECK(p.on_opened({p.epoch(), stage}) == (stage == 2));
  return p;
}

} // namespace

TEST_CASE("a coming generation takes over once all of its shards are ready, and computes anew") {
  auto p = due();
  CHECK(p.generation() == 0);
  CHECK(p.current() == pipeline::state::open); // until the scheduler has nothing in flight
  p = switched();
  CHECK(p.generation() == 1);
  CHECK(p.stages() == 3);
  CHECK(p.first_stage() == node_id{200});
  CHECK(p.blocks() == 9);
  CHECK_FALSE(p.keeps_kv());
  CHECK_FALSE(p.has_new_life()); // nobody has died
  CHECK_FALSE(p.is_switch_due());
}

TEST_CASE("the shards of the generation before may go once the coming one has taken over") {
  auto p = switched();
  CHECK_FALSE(p.on_down(node_id{100}));
  CHECK_FALSE(p.set_plan({{1, 3, {}}, std::nullopt}));
  CHECK(p.current() == pipeline::state::open);
  CHECK_FALSE(p.on_down(node_id{101}));
  CHECK(p.generation() == 1);
}

TEST_CASE("a coming shard that is lost before the switch leaves the epoch alone") {
  auto p = due();
  CHECK_FALSE(p.on_down(node_id{202}));
  CHECK_FALSE(p.is_switch_due());
  CHECK(p.current() == pipeline::state::open);
  CHECK(p.generation() == 0);
  announce_new(p, 2, 30);
  CHECK(p.is_switch_due());
}

TEST_CASE("a coming shard that is lost after the switch gives the epoch back") {
  auto p = switched();
  CHECK(p.on_down(node_id{201}));
  CHECK(p.open_if_complete().size() == 2);
  CHECK(p.generation() == 0);
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  CHECK_FALSE(p.keeps_kv()); // what was computed meanwhile, they have not
  CHECK(p.has_new_life());   // of the last epoch that was open, one is gone
}

TEST_CASE("a coming generation that is given up is over, though it serves already") {
  auto p = switched();
  CHECK(p.set_plan({{0, 2, {}}, std::nullopt}));
  CHECK(p.open_if_complete().size() == 2);
  CHECK(p.generation() == 0);
  CHECK_FALSE(p.on_down(node_id{200}));
}

TEST_CASE(
    "shards of a generation that is not known yet are remembered until the root tells of it") {
  auto p = opened();
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    announce_new(p, stage);
  CHECK(p.current() == pipeline::state::open);
  CHECK_FALSE(p.on_down(node_id{202}));
  CHECK_FALSE(p.set_plan(changing));
  CHECK_FALSE(p.is_switch_due());
  announce_new(p, 2);
  CHECK(p.is_switch_due());
}

TEST_CASE("a pipeline without stages waits for nobody until a generation with some comes") {
  auto p = opened();
  CHECK_FALSE(p.is_off());
  CHECK(p.set_plan({{1, 0, {"a", "b"}}, std::nullopt})); // its epoch is closed
  CHECK(p.is_off());
  CHECK(p.reason() == "no node has its layers");
  CHECK(p.open_if_complete().empty());
  CHECK_FALSE(p.set_plan({{1, 0, {"a", "b"}}, baton::generation{2, 2, {}}}));
  CHECK_FALSE(p.is_off());
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    auto of = ready(stage, 9);
    of.generation = 2;
    p.on_up(shard(stage, 9));
    CHECK(p.on_ready(of));
  }
  CHECK(p.is_switch_due());
  p.switch_over();
  CHECK(p.open_if_complete().size() == 2);
  CHECK(pipeline(0, 1, epoch_id{1}).is_off());
}

TEST_CASE("where the serving generation has lost a shard, the coming one opens at once") {
  auto p = opened();
  CHECK(p.on_down(node_id{100}));
  CHECK_FALSE(p.set_plan(changing));
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    announce_new(p, stage);
  CHECK(p.open_if_complete().size() == 3);
  CHECK(p.generation() == 1);
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    (void)p.on_opened({p.epoch(), stage});
  CHECK(p.has_new_life()); // what was in flight is suspect, as ever
}

TEST_CASE("the root's word may be said again, and changes nothing then") {
  auto p = switched();
  CHECK_FALSE(p.set_plan(changing));
  CHECK(p.current() == pipeline::state::open);
  CHECK(p.generation() == 1);
}

// -- KV that goes over --

namespace {

// As due(), of shards whose KV lies where others can read it.
pipeline due_with_memory() {
  pipeline p(2, 1, epoch_id{50});
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    p.on_up(shard(stage, 1));
    auto r = ready(stage, 1);
    r.kv_life = 70 + stage;
    REQUIRE(p.on_ready(r));
  }
  REQUIRE_FALSE(p.open_if_complete()[0].what.takes); // there was nothing before
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  (void)p.set_plan(changing);
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    announce_new(p, stage);
  return p;
}

// Whether the last shard's answer makes it one that keeps the KV.
bool keeps(pipeline& p, bool has_last_taken) {
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    CHECK(p.on_opened({p.epoch(), stage, 0, stage < 2 || has_last_taken}) == (stage == 2));
  return p.keeps_kv();
}

const std::vector<std::uint64_t> lives{70, 71};

} // namespace

TEST_CASE("those that take over are told whose KV to take, and keep it if all have it") {
  for (const bool has_last_taken : {true, false}) {
    auto p = due_with_memory();
    p.switch_over();
    for (const auto& order : p.open_if_complete()) {
      REQUIRE(order.what.takes);
      CHECK(order.what.takes->lives == lives);
    }
    CHECK(keeps(p, has_last_taken) == has_last_taken);
  }
}

TEST_CASE("a shard that is lost while it takes the KV takes it again in its next life") {
  auto p = due_with_memory();
  p.switch_over();
  REQUIRE(p.open_if_complete().size() == 3);
  CHECK_FALSE(p.on_opened({p.epoch(), 0, 0, true}));
  CHECK(p.on_down(node_id{202}));
  announce_new(p, 2, 30); // ahead of the scheduler's next look
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 3);
  CHECK(orders[2].what.takes);
  CHECK_FALSE(p.on_opened({p.epoch(), 0, 0, true}));
  CHECK_FALSE(p.on_opened({p.epoch(), 1, 0, true}));
  REQUIRE(p.on_opened({p.epoch(), 2, 0, true}));
  CHECK(p.keeps_kv());
}

TEST_CASE("after an epoch that did not end by the switch nothing is taken") {
  auto p = due_with_memory();
  CHECK(p.on_down(node_id{101})); // with a step in flight, maybe
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 3);
  CHECK_FALSE(orders[0].what.takes);
  CHECK_FALSE(keeps(p, false));
}

TEST_CASE("those that get the epoch back keep what they have, for nobody wrote it since") {
  auto p = due_with_memory();
  p.switch_over();
  REQUIRE(p.open_if_complete().size() == 3);
  CHECK(p.on_down(node_id{201}));
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 2);
  CHECK_FALSE(orders[0].what.takes); // it is their own
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  CHECK(p.keeps_kv());
  announce_new(p, 1, 40);
  p.switch_over(); // and it can be taken at the next try
  CHECK(p.open_if_complete()[0].what.takes);
}
