// The rules of the desk's table, without an actor.
#include "gateway/desk_state.hpp"

#include <doctest/doctest.h>

using namespace baton::gateway;
using namespace std::chrono_literals;

TEST_CASE("of two deadlines the sooner one counts, and none is no deadline") {
  CHECK(sooner(0ms, 0ms) == 0ms);
  CHECK(sooner(5ms, 0ms) == 5ms);
  CHECK(sooner(0ms, 7ms) == 7ms);
  CHECK(sooner(5ms, 7ms) == 5ms);
  CHECK(sooner(9ms, 7ms) == 7ms); // a client cannot ask for more than the operator gives
}
