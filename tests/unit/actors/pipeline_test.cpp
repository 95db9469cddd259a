// The states of a pipeline: it opens when all stages are present, and closes when a stage leaves or
// restarts.
#include "tests/unit/actors/pipeline_shards.hpp"

using namespace baton;
using namespace baton::actors;

TEST_CASE("a pipeline opens once every stage is linked, ready and has opened the epoch") {
  auto p = opened();
  CHECK(p.current() == pipeline::state::open);
  CHECK(p.epoch() == epoch_id{51});
  CHECK(p.blocks() == 6);
  CHECK(p.first_stage() == process_id{100});
  CHECK(p.reason().empty());
}

TEST_CASE("orders name every stage's address in order") {
  pipeline p({0, 2, {}}, epoch_id{0});
  p.on_up(shard(0, 1));
  p.on_up(shard(1, 2));
  (void)p.on_ready(ready(1, 2));
  (void)p.on_ready(ready(0, 1));
  auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 2);
  CHECK(orders[1].process == process_id{101});
  CHECK(orders[1].what.stage == 1);
  CHECK(orders[1].what.stages[0].endpoint == "ipc://s1");
  CHECK(p.open_if_complete().empty()); // in progress
}

TEST_CASE("a stage that goes down closes the epoch and its next incarnation opens a newer one") {
  auto p = opened();
  CHECK(p.on_down(process_id{101}));
  CHECK(p.reason() == "waiting for the shard of stage 1");
  CHECK_FALSE(p.on_down(process_id{101}));
  CHECK_FALSE(p.on_opened({epoch_id{51}, 0}));
  p.on_up(shard(1, 9));
  REQUIRE(p.on_ready(ready(1, 9)));
  CHECK(p.open_if_complete().size() == 2);
  CHECK(p.epoch() == epoch_id{52});
}

TEST_CASE("a stage that announces itself again has lost its epoch") {
  auto p = opened();
  auto again = p.on_ready(ready(0, 1));
  REQUIRE(again);
  CHECK(again->closed);
  CHECK(p.open_if_complete().size() == 2);
}

TEST_CASE("an announcement of an incarnation that is not linked does not open anything") {
  pipeline p({0, 1, {}}, epoch_id{0});
  p.on_up(shard(0, 1));
  auto r = ready(0, 2);
  r.stages = 1;
  REQUIRE(p.on_ready(r));
  CHECK(p.open_if_complete().empty());
}

TEST_CASE("stages of different models or pipelines are refused by name") {
  pipeline p({0, 2, {}}, epoch_id{0});
  REQUIRE(p.on_ready(ready(0, 1)));
  auto other = p.on_ready(ready(1, 2, 8, 8));
  REQUIRE_FALSE(other);
  CHECK(other.error().code == errc::version_mismatch);
  CHECK_FALSE(p.on_ready(ready(5, 2)));
}

TEST_CASE("a stage whose KV blocks hold no positions is refused") {
  pipeline p({0, 2, {}}, epoch_id{0});
  auto empty = ready(0, 1);
  empty.block_positions = 0;
  const auto refused = p.on_ready(empty);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_value);
  CHECK(p.on_ready(ready(0, 1)));
}

TEST_CASE("stages agree on whether their model has recurrent states, with two slots at least") {
  pipeline p({0, 2, {}}, epoch_id{0});
  auto first = ready(0, 1), second = ready(1, 2);
  first.state_slots = 1;
  const auto refused = p.on_ready(first);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_value);
  first.state_slots = 8;
  REQUIRE(p.on_ready(first));
  const auto other = p.on_ready(second);
  REQUIRE_FALSE(other);
  CHECK(other.error().code == errc::version_mismatch);
  second.state_slots = 6;
  REQUIRE(p.on_ready(second));
  p.on_up(shard(0, 1));
  p.on_up(shard(1, 2));
  REQUIRE(p.open_if_complete().size() == 2);
  CHECK(p.state_slots() == 6);
}

TEST_CASE("an epoch knows whether a stage has another incarnation than in the last open one") {
  auto p = opened();
  CHECK(p.has_restarted_shard());
  REQUIRE(p.on_down(process_id{101})); // its link fell, it lives
  p.on_up(shard(1, 2));
  REQUIRE(p.on_ready(ready(1, 2)));
  REQUIRE(p.open_if_complete().size() == 2);
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  CHECK_FALSE(p.has_restarted_shard());
  REQUIRE(p.on_down(process_id{101}));
  p.on_up(shard(1, 3));
  REQUIRE(p.on_ready(ready(1, 3)));
  REQUIRE(p.open_if_complete().size() == 2);
  (void)p.on_opened({p.epoch(), 0});
  REQUIRE(p.on_opened({p.epoch(), 1}));
  CHECK(p.has_restarted_shard());
}

TEST_CASE("the KV is kept if each stage is the same process or has found its memory again") {
  const auto reopened = [](std::uint64_t incarnation, std::uint64_t kv_before,
                           std::uint64_t kv_after) {
    pipeline p({0, 2, {}}, epoch_id{50});
    const auto open = [&](std::uint64_t last_incarnation, std::uint64_t kv_incarnation) {
      p.on_up(shard(0, 1));
      p.on_up(shard(1, last_incarnation));
      auto last = ready(1, last_incarnation);
      last.kv_incarnation = kv_incarnation;
      REQUIRE(p.on_ready(ready(0, 1)));
      REQUIRE(p.on_ready(last));
      REQUIRE(p.open_if_complete().size() == 2);
      (void)p.on_opened({p.epoch(), 0});
      REQUIRE(p.on_opened({p.epoch(), 1}));
    };
    open(2, kv_before);
    CHECK_FALSE(p.keeps_kv());
    REQUIRE(p.on_down(process_id{101}));
    open(incarnation, kv_after);
    return p.keeps_kv();
  };
  CHECK(reopened(2, 0, 0));
  CHECK(reopened(2, 9, 9));
  CHECK(reopened(3, 9, 9));
  CHECK_FALSE(reopened(3, 9, 8));
  CHECK_FALSE(reopened(3, 0, 0));
  CHECK_FALSE(reopened(3, 9, 0));
}

// Two stages of two ranks: slot s is rank s % 2 of stage s / 2, with the incarnation s + 1.
struct rank_slot_story {
  pipeline p{{0, 2, {}, 2}, epoch_id{50}};
  std::vector<std::uint64_t> incarnations{1, 2, 3, 4}, kv_incarnations{0, 0, 0, 0};

  stage_ready of(std::uint32_t rank_slot) const {
    stage_ready r{process_id{100 + rank_slot},
                  incarnation_id{incarnations[rank_slot]},
                  rank_slot / 2,
                  2,
                  8,
                  64,
                  7,
                  "toy"};
    r.kv_incarnation = kv_incarnations[rank_slot];
    r.rank = rank_slot % 2;
    r.width = 2;
    return r;
  }
  void announce(std::uint32_t rank_slot) {
    p.on_up(shard(rank_slot, incarnations[rank_slot]));
    REQUIRE(p.on_ready(of(rank_slot)));
  }
  bool open() {
    for (const auto& order : p.open_if_complete())
      if (p.on_opened({order.what.epoch, order.what.stage, order.what.rank}))
        return true;
    return false;
  }
};

TEST_CASE("with several ranks a stage, the pipeline opens once every rank of every stage has") {
  rank_slot_story s;
  for (const std::uint32_t rank_slot : {3U, 0U, 1U}) {
    s.announce(rank_slot);
    CHECK(s.p.open_if_complete().empty());
  }
  CHECK(s.p.reason() == "waiting for rank 0 of stage 1");
  s.announce(2);
  const auto orders = s.p.open_if_complete();
  REQUIRE(orders.size() == 4);
  for (std::uint32_t rank_slot = 0; rank_slot < 4; ++rank_slot) {
    CHECK(orders[rank_slot].process == process_id{100 + rank_slot});
    CHECK(orders[rank_slot].what.stage == rank_slot / 2);
    CHECK(orders[rank_slot].what.rank == rank_slot % 2);
    CHECK(orders[rank_slot].what.width == 2);
    CHECK(orders[rank_slot].what.stages[rank_slot].process == process_id{100 + rank_slot});
  }
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 0, 0}));
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 0, 0})); // a duplicate counts once
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 1, 0}));
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 1, 2})); // no such rank
  CHECK_FALSE(s.p.on_opened({s.p.epoch(), 1, 1}));
  CHECK(s.p.on_opened({s.p.epoch(), 0, 1}));
  CHECK(s.p.first_stage() == process_id{100});
}

TEST_CASE("a rank that is lost closes the epoch, and KV is kept only if its own is") {
  for (const std::uint32_t victim : {0U, 1U, 2U, 3U})
    for (const std::uint64_t found : {9U, 8U}) {
      CAPTURE(victim);
      rank_slot_story s;
      s.kv_incarnations = {9, 9, 9, 9};
      for (std::uint32_t rank_slot = 0; rank_slot < 4; ++rank_slot)
        s.announce(rank_slot);
      REQUIRE(s.open());
      CHECK(s.p.on_down(process_id{100 + victim}));
      s.incarnations[victim] = 20;
      s.kv_incarnations[victim] = found;
      s.announce(victim);
      REQUIRE(s.open());
      CHECK(s.p.has_restarted_shard());
      CHECK(s.p.keeps_kv() == (found == 9));
    }
}

TEST_CASE("the blocks of a pipeline are those of the rank with the fewest") {
  rank_slot_story s;
  for (std::uint32_t rank_slot = 0; rank_slot < 4; ++rank_slot) {
    s.p.on_up(shard(rank_slot, s.incarnations[rank_slot]));
    auto ready = s.of(rank_slot);
    ready.blocks = rank_slot == 3 ? 5 : 8;
    REQUIRE(s.p.on_ready(ready));
  }
  REQUIRE(s.p.open_if_complete().size() == 4);
  CHECK(s.p.blocks() == 5);
}

TEST_CASE("a rank with another partition, or of another model, is refused by name") {
  rank_slot_story s;
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

TEST_CASE("an abandoned epoch is opened again with the same stages under a later number") {
  auto p = opened();
  const auto before = p.epoch();
  p.abandon();
  CHECK(p.current() == pipeline::state::waiting);
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 2);
  CHECK(orders[0].what.epoch > before);
}
