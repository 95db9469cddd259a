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
  pipeline p(2, epoch_id{50});
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
  pipeline p(2, epoch_id{0});
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
  pipeline p(1, epoch_id{0});
  p.on_up(shard(0, 1));
  auto r = ready(0, 2);
  r.stages = 1;
  REQUIRE(p.on_ready(r));
  CHECK(p.open_if_complete().empty());
}

TEST_CASE("stages of different models or pipelines are refused by name") {
  pipeline p(2, epoch_id{0});
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
    pipeline p(2, epoch_id{50});
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

TEST_CASE("an abandoned epoch is opened anew with the same stages under a later number") {
  auto p = opened();
  const auto before = p.epoch();
  p.abandon();
  CHECK(p.current() == pipeline::state::waiting);
  const auto orders = p.open_if_complete();
  REQUIRE(orders.size() == 2);
  CHECK(orders[0].what.epoch > before);
}
