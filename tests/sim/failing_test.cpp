// Persistent immediate faults: ranks that cannot reduce, a group without memory, a link between two
// stages that falls whenever it is up. The cluster retries with bounded frequency and reports the
// reason to waiting clients in time. It is not ready meanwhile, and recovers by itself once the
// fault ends.
#include "tests/sim/scenario.hpp"

using namespace baton;
using namespace baton::sim;

namespace {

const auto recovery_timeout = schedule::scheduler_config{}.recovery_timeout;
constexpr auto pause_max = actors::epoch_pause_max;
constexpr auto tick = 1s; // and the work between the pauses

// Several ranks a stage, instead of one.
world_options of_ranks(std::uint64_t seed) {
  auto o = drawn_options(seed);
  o.width = std::max(o.width, 2u);
  return o;
}

// Several stages.
world_options of_stages(std::uint64_t seed) {
  auto o = drawn_options(seed);
  o.stages = std::max(o.stages, 2u);
  return o;
}

void begin_fault(world& w, bool is_of_memory, stage_index stage) {
  if (is_of_memory)
    w.refuses_group = [stage](stage_index s) { return s == stage; };
  else
    w.on_step = [&w, stage](shard_index shard, const micro_batch&) {
      return shard / w.options().width == stage ? step_fault::group : step_fault::none;
    };
}

void end_fault(world& w) {
  w.refuses_group = nullptr;
  w.on_step = nullptr;
}

void open_some(world& w, int count) {
  for (int i = 0; i < count; ++i) {
    auto plan = some_plan(w);
    plan.reads_slowly = false;
    plan.max_tokens = std::max(plan.max_tokens, 2u);
    w.open(plan);
  }
}

gateway::standing standing(const world& w) {
  return gateway::standing_of(*w.gateway_state()->look());
}

void check_not_ready(world& w, const std::string& why) {
  CHECK(w.stands() == phase::recovering);
  const auto status_before = standing(w);
  CHECK(status_before.phase == phase::recovering);
  CAPTURE(status_before.reason);
  CHECK(status_before.reason.find(why) != std::string::npos);
}

// Once a fault of a link is over, the cluster serves again after the longest pause.
void check_recovers(world& w) {
  w.run_for(pause_max + 20s);
  CHECK(w.stands() == phase::ready);
  const auto& after = w.open({.input = {1, 2, 3}, .max_tokens = 5});
  check_rest(w);
  CHECK(after.is_complete());
  check_failures(w, after_losses);
}

} // namespace

TEST_CASE(
    "epochs that always fail at their first step fail waiting requests and are opened again") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(of_ranks(seed));
        w.run_for(500ms);
        const bool is_of_memory = w.draw(2) == 0;
        const auto why = is_of_memory ? "no memory for the group" : "the communicator is refused";
        if (w.draw(2) == 0) { // some have begun, and the epoch is old
          open_some(w, 3);
          w.run_for(std::chrono::milliseconds(w.draw(20)));
        }
        begin_fault(w, is_of_memory, static_cast<stage_index>(w.draw(w.options().stages)));
        if (is_of_memory) { // only an open epoch has it
          const auto first = shard_process(0);
          w.crash(first);
          w.restart(first);
        }
        w.run_for(100ms);
        open_some(w, 3);
        w.run_for(40s);
        check_not_ready(w, why);
        w.run_for(recovery_timeout - 40s + pause_max + tick);
        CHECK(w.run_until_ended(tick));
        for (const auto& c : w.clients())
          if (c->failure()) {
            const auto reported_error = *c->failure();
            CAPTURE(reported_error.message);
            const bool has_reason = reported_error.message.find(why) != std::string::npos;
            CHECK((reported_error.code == errc::queue_timeout || has_reason));
            CHECK((reported_error.code == errc::pipeline_lost ||
                   reported_error.code == errc::not_ready ||
                   reported_error.code == errc::queue_timeout)); // it never had a slot
          }
        for (int i = 0; i < 30; ++i) { // no client sends a request
          w.run_for(1s);
          check_not_ready(w, why);
        }
        bool was_ready = false; // not even at the moment in which an epoch is open
        for (const auto until = w.now() + pause_max + tick; w.now() < until; w.run_for(5ms))
          was_ready |= w.stands() == phase::ready;
        CHECK_FALSE(was_ready);
        check_promises(w);
        end_fault(w);
        w.run_for(pause_max + actors::epoch_held_after + tick);
        CHECK(w.stands() == phase::ready);
        const auto& last = w.open({.input = {1, 2, 3}, .max_tokens = 5});
        check_rest(w);
        CHECK(last.is_complete());
      },
      /*stride=*/5);
}

TEST_CASE(
    "a request that waits through a fault of some seconds gets its answer, with the same tokens") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(of_ranks(seed));
        w.run_for(500ms);
        open_some(w, 3);
        w.run_for(std::chrono::milliseconds(w.draw(20)));
        begin_fault(w, /*is_of_memory=*/false,
                    static_cast<stage_index>(w.draw(w.options().stages)));
        open_some(w, 2);
        w.run_for(std::chrono::milliseconds(w.draw(30'000)));
        end_fault(w);
        check_rest(w);
        check_failures(w, {});
      },
      /*stride=*/5);
}

TEST_CASE(
    "a link between stages that falls whenever it is up does not flood the cluster with epochs") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(of_stages(seed));
        w.run_for(500ms);
        open_some(w, 4);
        const auto last = (w.options().stages - 1) * w.options().width;
        const auto span = std::chrono::milliseconds(1 + w.draw(40));
        for (auto until = w.now() + 70s; w.now() < until; w.run_for(span))
          w.network().disconnect(shard_process(0), shard_process(last));
        check_promises(w);
        check_recovers(w);
      },
      /*stride=*/10);
}

TEST_CASE("a link whose messages are refused whenever it is up does not flood the network") {
  for_seeds(
      [](std::uint64_t seed) {
        world w(of_stages(seed));
        w.run_for(500ms);
        open_some(w, 4);
        w.run_for(std::chrono::milliseconds(w.draw(20)));
        const auto shard = shard_process(w.draw(2) == 0 ? 0 : w.options().width);
        std::uint64_t messages = 0;
        w.network().on_send = [&](process_id from, process_id to) {
          if (std::minmax(from, to) != std::minmax(head_process, shard))
            return testing::sim_fault::none;
          ++messages;
          return testing::sim_fault::duplicate; // a link takes no message twice
        };
        w.run_for(60s);
        CHECK(messages > 20);
        CHECK(messages < 1000);
        w.network().on_send = nullptr;
        check_recovers(w);
      },
      /*stride=*/10);
}
