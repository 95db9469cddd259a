// What changes the generations of shards that there are.
#include "cluster/plan/generation_book.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {
const generation_book::time_point generation_start{};
}

TEST_CASE("a generation serves once the head says so") {
  generation_book book({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  CHECK(book.outcome().empty());
  REQUIRE(book.begin({1, 3, {"b"}}, generation_start));
  CHECK(book.noted().now.coming == generation{1, 3, {"b"}});
  CHECK(book.is_changing());
  CHECK_FALSE(book.on_serves(0)); // as before
  CHECK(book.on_serves(1));
  CHECK_FALSE(book.on_serves(1));
  CHECK(book.noted() == noted_generations{{{1, 3, {"b"}}, std::nullopt}, 1});
  CHECK(book.outcome() == "generation 1 serves");
}

TEST_CASE("why there is a change is said with how it goes") {
  generation_book book({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(book.begin({1, 1, {"b"}}, generation_start, "node b is gone"));
  CHECK(book.outcome() == "generation 1 is being started: node b is gone");
  CHECK(book.coming() == 1u);
  REQUIRE(book.on_serves(1));
  CHECK(book.outcome() == "generation 1 serves: node b is gone");
  REQUIRE(book.begin({2, 2, {}}, generation_start));
  CHECK(book.outcome() == "generation 2 is being started");
  CHECK(book.give_up("no"));
  book.stay("node c is gone, and nobody can take its layers");
  CHECK(book.outcome() == "node c is gone, and nobody can take its layers");
}

TEST_CASE("a generation in place of the one that served leaves nothing to go back to") {
  generation_book book({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(book.replace({1, 1, {"b"}}, generation_start, "node b is gone"));
  CHECK(book.noted() == noted_generations{{{1, 1, {"b"}}, std::nullopt}, 1});
  CHECK_FALSE(book.is_changing());
  CHECK_FALSE(book.give_up("too late"));
  REQUIRE(book.begin({5, 2, {}}, generation_start)); // the numbers between are of other pipelines
  CHECK(book.noted().last == 5);
  CHECK_FALSE(book.replace({6, 1, {}}, generation_start, "another change is under way"));
}

TEST_CASE("there is one change at a time") {
  generation_book book({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(book.begin({1, 3, {}}, generation_start));
  const auto second = book.begin({2, 1, {}}, generation_start);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == errc::conflict);
}

TEST_CASE("what was given up leaves what there was, and its number is not used again") {
  generation_book book({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  REQUIRE(book.begin({1, 3, {}}, generation_start));
  CHECK(book.give_up("shard-0 is gone"));
  CHECK_FALSE(book.give_up("shard-1 is gone"));
  CHECK(book.outcome() == "generation 1 was given up: shard-0 is gone");
  CHECK_FALSE(book.on_serves(1)); // the head has switched, and goes back
  CHECK(book.noted().now == generations{{0, 2, {}}, std::nullopt});
  CHECK(book.noted().last == 1);
}

TEST_CASE("a change that takes too long is given up, another root's with all of its time") {
  generation_book book({{{0, 2, {}}, std::nullopt}, 0}, generation_start);
  CHECK_FALSE(book.tick(generation_start + change_patience));
  REQUIRE(book.begin({1, 3, {}}, generation_start + 5s));
  CHECK_FALSE(book.tick(generation_start + change_patience));
  generation_book next(book.noted(), generation_start + 60s);
  CHECK(next.is_changing());
  CHECK(book.tick(generation_start + 5s + change_patience));
  CHECK_FALSE(book.is_changing());
  CHECK_FALSE(next.tick(generation_start + 5s + change_patience));
  CHECK(next.tick(generation_start + 60s + change_patience));
}

TEST_CASE("generations do not run out of numbers in silence") {
  generation_book book({{{0, 2, {}}, std::nullopt}, generations_max - 1}, generation_start);
  const auto refused = book.begin({generations_max, 3, {}}, generation_start);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::does_not_fit);
}

TEST_CASE("a machine elsewhere notes what it was told, and numbers that are used already") {
  const generation serving{4, 2, {"c"}};
  const generation coming{7, 3, {}};
  CHECK(noted_elsewhere({serving, std::nullopt}) == noted_generations{{serving, std::nullopt}, 4});
  CHECK(noted_elsewhere({serving, coming}) == noted_generations{{serving, coming}, 7});
}

TEST_CASE("a node that comes to be has no shards of the generations that there are") {
  generation_book book({{{0, 2, {"c"}}, std::nullopt}, 0}, generation_start);
  REQUIRE(book.begin({1, 3, {}}, generation_start));
  book.leave_out({"d", "c"});
  CHECK(book.noted().now == generations{{0, 2, {"c", "d"}}, generation{1, 3, {"c", "d"}}});
}
