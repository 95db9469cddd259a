// Every single fault of a small run: the n-th message, the n-th step, the n-th start of an actor.
// The sweep ends with the first run that does not reach its fault.
#include "tests/sim/scenario.hpp"

using namespace baton;
using namespace baton::sim;

namespace {

using is_it = std::function<bool()>;
// The moment of a fault: before the world is built, or in it.
struct fault_point {
  std::function<void(world_options&, is_it)> in_options = [](world_options&, const is_it&) {};
  std::function<void(world&, is_it)> in_world = [](world&, const is_it&) {};
};

// Runs the small scenario with the fault at its n-th opportunity; true if that was reached.
bool run_with(std::uint64_t n, const fault_point& place, std::uint32_t width,
              std::uint32_t state_slots) {
  CAPTURE(n);
  CAPTURE(width);
  CAPTURE(state_slots);
  std::uint64_t asked = 0;
  const is_it is_now = [&asked, n] { return ++asked == n; };
  // Two shards, as two stages or as two ranks of one.
  world_options options{.seed = 11,
                        .stages = 2 / width,
                        .width = width,
                        .state_slots = state_slots,
                        .window_bytes = 2048};
  place.in_options(options, is_now);
  world w(options);
  place.in_world(w, is_now);
  w.run_for(60ms);
  for (int i = 0; i < 3; ++i)
    if (w.is_alive(gateway_process))
      w.open({.input = {1, 2, 3, static_cast<token_id>(4 + i)}, .max_tokens = 4});
  CHECK(w.run_until_ended(60s)); // a lost question times out after 30 s
  const bool was_reached = asked >= n;
  w.on_step = nullptr;
  w.network().on_send = nullptr;
  w.run_for(5s); // links exchange greetings again
  for (auto process : all_processes(w))
    CHECK(w.is_alive(process));
  w.open({.input = {9, 8, 7}, .max_tokens = 3});
  check_rest(w);
  CHECK(w.clients().back()->is_complete());
  return was_reached;
}

void sweep(const fault_point& place) {
  for (const std::uint32_t width : {1U, 2U})
    for (const std::uint32_t state_slots : {0U, 7U}) {
      auto n = 1 + chosen().part;
      while (run_with(n, place, width, state_slots))
        n += chosen().parts;
      CHECK(n > 3); // at least a few were tried
    }
}

void sweep_sends(testing::sim_fault fault) {
  fault_point place;
  place.in_world = [fault](world& w, const is_it& is_now) {
    w.network().on_send = [fault, is_now](process_id, process_id) {
      return is_now() ? fault : testing::sim_fault::none;
    };
  };
  sweep(place);
}

void sweep_steps(step_fault fault) {
  fault_point place;
  place.in_world = [fault](world& w, const is_it& is_now) {
    w.on_step = [fault, is_now](shard_index, const micro_batch&) {
      return is_now() ? fault : step_fault::none;
    };
  };
  sweep(place);
}

} // namespace

TEST_CASE("any one message may be lost") {
  sweep_sends(testing::sim_fault::lose);
}
TEST_CASE("any one message may come twice") {
  sweep_sends(testing::sim_fault::duplicate);
}
TEST_CASE("any one message may be corrupt") {
  sweep_sends(testing::sim_fault::corrupt);
}
TEST_CASE("a connection may fall at any message") {
  sweep_sends(testing::sim_fault::disconnect);
}
TEST_CASE("any one step may fail") {
  sweep_steps(step_fault::error);
}
TEST_CASE("there may be no memory for any one step") {
  sweep_steps(step_fault::no_memory);
}
TEST_CASE("the engine may throw in any one step") {
  sweep_steps(step_fault::exception);
}
TEST_CASE("a shard may die in any one step") {
  sweep_steps(step_fault::death);
}
TEST_CASE("the process of any one actor may die at its start") {
  fault_point place;
  place.in_options = [](world_options& o, const is_it& is_now) { o.dies_at_start = is_now; };
  sweep(place);
}
