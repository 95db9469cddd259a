// The probe runs a shard's engine. Checks only that it runs for every stage slot and number of
// rows; ./check growth measures its accuracy.
#include "runtime/cpu/forward/step_probe.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cpu;
using namespace baton::testing;

TEST_CASE("the probe times a step for every stage slot, in turns and at once") {
  const tiny_file tiny(tiny_llama{});
  auto probe = step_probe::load(*tiny.file, tiny.description, {}, {{1, {}}, {2, {}}}, 5);
  REQUIRE_MESSAGE(probe, probe.error().message);
  for (const std::uint32_t rows : {1U, 5U})
    for (const bool at_once : {false, true}) {
      const auto seconds = probe->measure(rows, at_once);
      REQUIRE_MESSAGE(seconds, seconds.error().message);
      REQUIRE(seconds->size() == 2);
      CHECK(seconds->at(0) > 0);
      CHECK(seconds->at(1) > 0);
    }
}
