// Events that change the generations of shards.
#include "cluster/membership/generation_registry.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {
const generation_registry::time_point generation_start{};
}

TEST_CASE("a generation serves once the head reports it") {
  generation_registry registry({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  CHECK(registry.outcome().empty());
  REQUIRE(registry.begin({1, 3, {"b"}}, generation_start));
  CHECK(registry.record().now.coming == generation{1, 3, {"b"}});
  CHECK(registry.is_changing());
  CHECK_FALSE(registry.on_serves(0)); // a duplicate
  CHECK(registry.on_serves(1));
  CHECK_FALSE(registry.on_serves(1));
  CHECK(registry.record() == recorded_generations{{{1, 3, {"b"}}, std::nullopt}, 1});
  CHECK(registry.outcome() == "generation 1 serves");
}

TEST_CASE("the reason for a change is shown with its progress") {
  generation_registry registry({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(registry.begin({1, 1, {"b"}}, generation_start, "node b is gone"));
  CHECK(registry.outcome() == "generation 1 is being started: node b is gone");
  CHECK(registry.coming() == 1u);
  REQUIRE(registry.on_serves(1));
  CHECK(registry.outcome() == "generation 1 serves: node b is gone");
  REQUIRE(registry.begin({2, 2, {}}, generation_start));
  CHECK(registry.outcome() == "generation 2 is being started");
  CHECK(registry.give_up("no"));
  registry.stay("node c is gone, and nobody can take its layers");
  CHECK(registry.outcome() == "node c is gone, and nobody can take its layers");
}

TEST_CASE("a generation that replaces the serving one leaves none to go back to") {
  generation_registry registry({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(registry.replace({1, 1, {"b"}}, generation_start, "node b is gone"));
  CHECK(registry.record() == recorded_generations{{{1, 1, {"b"}}, std::nullopt}, 1});
  CHECK_FALSE(registry.is_changing());
  CHECK_FALSE(registry.give_up("too late"));
  REQUIRE(registry.begin({5, 2, {}},
                         generation_start)); // the numbers between belong to other pipelines
  CHECK(registry.record().last == 5);
  CHECK_FALSE(registry.replace({6, 1, {}}, generation_start, "another change is under way"));
}

TEST_CASE("there is one change at a time") {
  generation_registry registry({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(registry.begin({1, 3, {}}, generation_start));
  const auto second = registry.begin({2, 1, {}}, generation_start);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::conflict);
}

TEST_CASE("giving up a change restores the earlier state, and its number is not reused") {
  generation_registry registry({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(registry.begin({1, 3, {}}, generation_start));
  CHECK(registry.give_up("shard-0 is gone"));
  CHECK_FALSE(registry.give_up("shard-1 is gone"));
  CHECK(registry.outcome() == "generation 1 was given up: shard-0 is gone");
  CHECK_FALSE(registry.on_serves(1)); // the head has switched, and goes back
  CHECK(registry.record().now == generations{{0, 2, {}}, std::nullopt});
  CHECK(registry.record().last == 1);
}

TEST_CASE("a change that takes too long is given up; after a new root it has its full time") {
  generation_registry registry({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  CHECK_FALSE(registry.tick(generation_start + change_patience));
  REQUIRE(registry.begin({1, 3, {}}, generation_start + 5s));
  CHECK_FALSE(registry.tick(generation_start + change_patience));
  generation_registry next(registry.record(), generation_start + 60s);
  CHECK(next.is_changing());
  CHECK(registry.tick(generation_start + 5s + change_patience));
  CHECK_FALSE(registry.is_changing());
  CHECK_FALSE(next.tick(generation_start + 5s + change_patience));
  CHECK(next.tick(generation_start + 60s + change_patience));
}

TEST_CASE("running out of generation numbers is an error") {
  generation_registry registry({{{0, 2, {}}, std::nullopt}, generations_max - 1}, generation_start);
  const auto refused = registry.begin({generations_max, 3, {}}, generation_start);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::does_not_fit);
}

TEST_CASE("a remote machine records the generations that it received, and the numbers in use") {
  const generation serving{4, 2, {"c"}};
  const generation coming{7, 3, {}};
  CHECK(agent_record_of({serving, std::nullopt}) ==
        recorded_generations{{serving, std::nullopt}, 4});
  CHECK(agent_record_of({serving, coming}) == recorded_generations{{serving, coming}, 7});
}

TEST_CASE("a new node has no shards of the existing generations") {
  generation_registry registry({{{0, 2, {"c"}}, std::nullopt}, 0}, generation_start);
  REQUIRE(registry.begin({1, 3, {}}, generation_start));
  registry.leave_out({"d", "c"});
  CHECK(registry.record().now == generations{{0, 2, {"c", "d"}}, generation{1, 3, {"c", "d"}}});
}

TEST_CASE("generations of a peer or a file are checked before they are used") {
  generations now{{3, 2, {}}, generation{4, 1, {"c"}}};
  CHECK(check_generations(now));
  CHECK(check_generations(recorded_generations{now, 4}));
  SUBCASE("a stage without ranks") {
    now.serving.width = 0;
  }
  SUBCASE("a number that no process id has room for") {
    now.coming->number = generations_max;
  }
  SUBCASE("more shards than a cluster has") {
    now.coming->width = limits::stages_max + 1;
  }
  const auto refused = check_generations(now);
  if (now.serving.width == 0 || now.coming->number != 4 || now.coming->width != 1) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::invalid_value);
  }
  CHECK_FALSE(check_generations(generations{{3, 2, {}}, generation{3, 1, {"c"}}}));
  CHECK_FALSE(check_generations(recorded_generations{{{3, 2, {}}, std::nullopt}, 2}));
  CHECK_FALSE(check_generations(recorded_generations{{{3, 2, {}}, std::nullopt}, UINT32_MAX}));
}
