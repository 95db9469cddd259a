// Two generations of a pipeline's shards: which one has the epochs, and what happens to the KV.
#include "tests/unit/actors/pipeline_shards.hpp"

using namespace baton;
using namespace baton::actors;

namespace {

// The shard of a stage of generation 1, which has three.
hello newcomer(std::uint32_t stage, std::uint64_t incarnation = 20) {
  return {process_id{200 + stage},
          incarnation_id{incarnation + stage},
          role::shard,
          "new",
          "ipc://n",
          "b",
          1};
}
stage_ready new_ready(std::uint32_t stage, std::uint64_t incarnation = 20) {
  stage_ready r{
      process_id{200 + stage}, incarnation_id{incarnation + stage}, stage, 3, 9, 64, 7, "toy"};
  r.generation = 1;
  return r;
}
const generations changing{{0, 2, {}}, generation{1, 3, {}}};

void announce_new(pipeline& p, std::uint32_t stage, std::uint64_t incarnation = 20) {
  p.on_up(newcomer(stage, incarnation));
  REQUIRE(p.on_ready(new_ready(stage, incarnation)));
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

TEST_CASE("a coming generation takes over once all its shards are ready, and recomputes the KV") {
  auto p = due();
  CHECK(p.generation() == 0);
  CHECK(p.current() == pipeline::state::open); // until the scheduler has nothing in flight
  p = switched();
  CHECK(p.generation() == 1);
  CHECK(p.stages() == 3);
  CHECK(p.first_stage() == process_id{200});
  CHECK(p.blocks() == 9);
  CHECK_FALSE(p.keeps_kv());
  CHECK_FALSE(p.has_restarted_shard()); // no shard has died
  CHECK_FALSE(p.is_switch_due());
}

TEST_CASE("shards of the previous generation may end once the coming one has taken over") {
  auto p = switched();
  CHECK_FALSE(p.on_down(process_id{100}));
  CHECK_FALSE(p.set_plan({{1, 3, {}}, std::nullopt}));
  CHECK(p.current() == pipeline::state::open);
  CHECK_FALSE(p.on_down(process_id{101}));
  CHECK(p.generation() == 1);
}

TEST_CASE("a coming shard that is lost before the switch does not affect the epoch") {
  auto p = due();
  CHECK_FALSE(p.on_down(process_id{202}));
  CHECK_FALSE(p.is_switch_due());
  CHECK(p.current() == pipeline::state::open);
  CHECK(p.generation() == 0);
  announce_new(p, 2, 30);
  CHECK(p.is_switch_due());
}

TEST_CASE(
    "a coming shard that is lost after the switch returns the epoch to the previous generation") {
  auto p = switched();
  CHECK(p.on_down(process_id{201}));
  CHECK(p.open_if_complete().size() == 2);
  CHECK(p.generation() == 0);
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  CHECK_FALSE(p.keeps_kv());      // they lack the KV computed meanwhile
  CHECK(p.has_restarted_shard()); // one shard of the last open epoch is gone
}

TEST_CASE("a coming generation that is given up ends, even if it serves already") {
  auto p = switched();
  CHECK(p.set_plan({{0, 2, {}}, std::nullopt}));
  CHECK(p.open_if_complete().size() == 2);
  CHECK(p.generation() == 0);
  CHECK_FALSE(p.on_down(process_id{200}));
}

TEST_CASE("shards of an unknown generation are remembered until the root announces it") {
  auto p = opened();
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    announce_new(p, stage);
  CHECK(p.current() == pipeline::state::open);
  CHECK_FALSE(p.on_down(process_id{202}));
  CHECK_FALSE(p.set_plan(changing));
  CHECK_FALSE(p.is_switch_due());
  announce_new(p, 2);
  CHECK(p.is_switch_due());
}

TEST_CASE("a pipeline without stages waits for no shard until a generation with stages comes") {
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
  CHECK(pipeline({0, 0, {}}, epoch_id{1}).is_off());
}

TEST_CASE("if the serving generation has lost a shard, the coming one opens at once") {
  auto p = opened();
  CHECK(p.on_down(process_id{100}));
  CHECK_FALSE(p.set_plan(changing));
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    announce_new(p, stage);
  CHECK(p.open_if_complete().size() == 3);
  CHECK(p.generation() == 1);
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    (void)p.on_opened({p.epoch(), stage});
  CHECK(p.has_restarted_shard()); // sequences in flight are suspects, as usual
}

TEST_CASE("a coming generation may be wider than the serving one") {
  auto p = opened();
  CHECK_FALSE(p.set_plan({{0, 2, {}}, generation{1, 1, {}, 2}}));
  auto rank = [](std::uint32_t r, std::uint32_t width) {
    stage_ready ready{process_id{200 + r}, incarnation_id{20 + r}, 0, 1, 9, 64, 7, "toy"};
    ready.generation = 1;
    ready.rank = r;
    ready.width = width;
    return ready;
  };
  p.on_up(newcomer(0));
  p.on_up(newcomer(1));
  CHECK(p.on_ready(rank(0, 1)).error().code == errc::invalid_value); // as wide as the other one
  CHECK(p.on_ready(rank(0, 2)));
  CHECK_FALSE(p.is_switch_due());
  CHECK(p.on_ready(rank(1, 2)));
  REQUIRE(p.is_switch_due());
  CHECK(p.width() == 1);
  p.switch_over();
  CHECK(p.width() == 2);
  CHECK(p.stages() == 1);
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 2);
  CHECK(orders[1].what.rank == 1);
  CHECK(orders[1].what.width == 2);
  CHECK_FALSE(p.on_opened({p.epoch(), 0, 0}));
  CHECK(p.on_opened({p.epoch(), 0, 1}));
}

TEST_CASE("a repeated plan of the root changes nothing") {
  auto p = switched();
  CHECK_FALSE(p.set_plan(changing));
  CHECK(p.current() == pipeline::state::open);
  CHECK(p.generation() == 1);
}

// -- KV that is taken over --

namespace {

// As due(), of shards whose KV others can read.
pipeline due_with_memory() {
  pipeline p({0, 2, {}}, epoch_id{50});
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    p.on_up(shard(stage, 1));
    auto r = ready(stage, 1);
    r.kv_incarnation = 70 + stage;
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

// Whether the last shard's answer makes the epoch one that keeps the KV.
bool keeps(pipeline& p, bool has_last_taken) {
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    CHECK(p.on_opened({p.epoch(), stage, 0, stage < 2 || has_last_taken}) == (stage == 2));
  return p.keeps_kv();
}

const std::vector<std::uint64_t> kv_incarnations{70, 71};

} // namespace

TEST_CASE("shards that take over know whose KV to take, and keep it if all have it") {
  for (const bool has_last_taken : {true, false}) {
    auto p = due_with_memory();
    p.switch_over();
    for (const auto& order : p.open_if_complete()) {
      REQUIRE(order.what.takes);
      CHECK(order.what.takes->kv_incarnations == kv_incarnations);
    }
    CHECK(keeps(p, has_last_taken) == has_last_taken);
  }
}

TEST_CASE("a shard that is lost while it takes the KV takes it again in its next incarnation") {
  auto p = due_with_memory();
  p.switch_over();
  REQUIRE(p.open_if_complete().size() == 3);
  CHECK_FALSE(p.on_opened({p.epoch(), 0, 0, true}));
  CHECK(p.on_down(process_id{202}));
  announce_new(p, 2, 30); // before the scheduler's next poll
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 3);
  CHECK(orders[2].what.takes);
  CHECK_FALSE(p.on_opened({p.epoch(), 0, 0, true}));
  CHECK_FALSE(p.on_opened({p.epoch(), 1, 0, true}));
  REQUIRE(p.on_opened({p.epoch(), 2, 0, true}));
  CHECK(p.keeps_kv());
}

TEST_CASE("after an epoch that did not end by the switch no KV is taken") {
  auto p = due_with_memory();
  CHECK(p.on_down(process_id{101})); // possibly with a step in flight
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 3);
  CHECK_FALSE(orders[0].what.takes);
  CHECK_FALSE(keeps(p, false));
}

TEST_CASE("shards that get the epoch back keep their KV, since no other has written it") {
  auto p = due_with_memory();
  p.switch_over();
  REQUIRE(p.open_if_complete().size() == 3);
  CHECK(p.on_down(process_id{201}));
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
