// The expected speed of a plan: stage times combined as the scheduler runs steps.
#include "cluster/plan/expected_speed.hpp"
#include "tests/unit/cluster/small_model.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace baton;
using namespace baton::cluster;

namespace {

double rate(const std::vector<double>& stage_seconds, std::uint32_t streams) {
  return tokens_per_second(stage_seconds, streams);
}

} // namespace

TEST_CASE("as many micro-batches are in flight as there are stages, or streams") {
  CHECK(batches_of(1, 4).count == 1);
  CHECK(batches_of(3, 4).count == 3);
  CHECK(batches_of(3, 4).rows == 1);
  CHECK(batches_of(32, 2).count == 2);
  CHECK(batches_of(32, 2).rows == 16);
  CHECK(batches_of(9, 2).rows == 5);
}

TEST_CASE("one stream waits for every stage in turn, many for the slowest") {
  CHECK(rate({0.01, 0.01}, 1) == doctest::Approx(1 / 0.0205).epsilon(0.01));
  CHECK(rate({0.01, 0.01}, 32) == doctest::Approx(32 / 0.0205).epsilon(0.01));
  CHECK(rate({0.01, 0.03}, 32) == doctest::Approx(32 / 0.06).epsilon(0.01));
  CHECK(rate({0.03}, 32) == doctest::Approx(32 / 0.0304).epsilon(0.01));
}

TEST_CASE("a slow link delays one stream, and many as far as stages wait for it") {
  const std::vector<double> even{0.01, 0.01}, uneven{0.01, 0.03};
  CHECK(tokens_per_second(even, 1, 0.01) == doctest::Approx(1 / 0.0305).epsilon(0.01));
  CHECK(tokens_per_second(even, 32, 0.01) == doctest::Approx(32 / 0.0305).epsilon(0.01));
  CHECK(tokens_per_second(uneven, 32, 0.01) == doctest::Approx(32 / 0.06).epsilon(0.01));
}

TEST_CASE("serving takes time from the stages if their threads use every core") {
  CHECK(serving_seconds(32, 1, 1, 2) == 0); // a core is left
  CHECK(serving_seconds(32, 0, 0, 2) == 0); // no stage is here
  const double one = serving_seconds(32, 1, 2, 2);
  CHECK(one > 0);
  const double first = serving_seconds(1, 1, 2, 2); // a step of one row costs more than a row
  CHECK(first > (one - first) / 31);
  CHECK(one - first == doctest::Approx(31 * (serving_seconds(2, 1, 2, 2) - first)));
  CHECK(serving_seconds(32, 2, 2, 2) == doctest::Approx(one / 2)); // they alternate
  CHECK(serving_seconds(32, 1, 4, 2) == doctest::Approx(one));     // more threads than cores
}

TEST_CASE("the cost of a step follows the bytes that it reads: more layers more, plus the head") {
  const auto model = small_model();
  const auto cost = [&](std::uint32_t first, std::uint32_t count, bool heads) {
    return model::step_cost(model, {first, count, first == 0, heads}, 1);
  };
  CHECK(cost(0, 10, false) == doctest::Approx(cost(20, 10, false)));
  CHECK(cost(0, 20, false) == doctest::Approx(2 * cost(0, 10, false)));
  CHECK(cost(0, 17, false) + cost(17, 13, true) == doctest::Approx(cost(0, 30, true)));
  CHECK(cost(17, 13, true) - cost(17, 13, false) == doctest::Approx(30e6));
}

TEST_CASE("the plan shows the expected speed, for people and for scripts") {
  cluster_config config;
  config.name = "t";
  config.model.name = "m";
  config.nodes = {{"a", "127.0.0.1", {"cpu:0"}, "", "", false}};
  const auto plan = make_plan(config, small_model(), {{root_machine, {{0}, 8ull << 30}}});
  REQUIRE(plan);
  const std::vector<expected_speed> expected{{1, 149.6}, {8, 500}};
  CHECK(plan_table(config, small_model(), *plan, expected)
            .find("expected: 150 tokens/s for one stream, 500 for 8") != std::string::npos);
  CHECK(plan_json(config, small_model(), *plan, expected)["expected"][0]["tokens_per_second"] ==
        149.6);
  CHECK(plan_table(config, small_model(), *plan).find("expected") == std::string::npos);
}
