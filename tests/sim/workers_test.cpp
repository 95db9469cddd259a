// Workers of a model that are killed, hang or send garbage, and requests that end their workers.
// Every stream ends once with the handler's answer, and other requests are not affected.
#include "tests/sim/scenario.hpp"
#include "tests/sim/worker_world.hpp"

using namespace baton;
using namespace baton::sim;

namespace {

void check(std::uint64_t seed, worker_faults faults) {
  worker_world w(seed, faults);
  w.live(600);
  w.settle();
  const auto broken = w.broken();
  const std::string promise = broken.value_or("");
  CAPTURE(promise);
  CHECK_FALSE(broken);
}

} // namespace

TEST_CASE("requests that end their workers are found, and cost no other request") {
  for_seeds([](std::uint64_t seed) { check(seed, {}); });
}

TEST_CASE("workers that are killed or hang are replaced, and each request ends once") {
  for_seeds([](std::uint64_t seed) { check(seed, {.kills = true, .hangs = true}); });
}

TEST_CASE("a worker that sends garbage is ended, and its messages are ignored") {
  for_seeds([](std::uint64_t seed) { check(seed, {.hangs = true, .raves = true}); });
}
