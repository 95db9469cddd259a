// The factor that ./check passes to tests: a value that is not at least 1 changes no deadline.
#include "tests/support/deadline_scale.hpp"

#include <doctest/doctest.h>

using baton::testing::deadline_scale_of;

TEST_CASE("a deadline's factor is at least 1, and bounded") {
  CHECK(deadline_scale_of("2.5") == 2.5);
  CHECK(deadline_scale_of("1") == 1);
  CHECK(deadline_scale_of("1e9") == baton::testing::deadline_scale_max);
  for (const char* none : {"", "0.2", "-3", "nan", "slow"})
    CHECK(deadline_scale_of(none) == 1);
  CHECK(deadline_scale_of(nullptr) == 1);
}
