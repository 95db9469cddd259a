// Which models are in memory: loads by requests, evictions, idleness, failures.
#include "cluster/membership/on_demand_models.hpp"

#include <doctest/doctest.h>

#include <set>
#include <utility>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {

// A plan that carries out orders at once, with room for `room` models.
struct on_demand_fixture {
  explicit on_demand_fixture(std::vector<on_demand_model> all, std::uint32_t loaded_max = 4)
      : models(std::move(all), loaded_max,
               {[this](std::uint32_t p) -> result<void> {
                  ++tries;
                  if (broken.contains(p))
                    return fail(errc::bad_config, "the file is gone");
                  if (loaded.size() >= room)
                    return fail(errc::does_not_fit, "no room");
                  loaded.insert(p);
                  return {};
                },
                [this](std::uint32_t p) -> result<void> {
                  loaded.erase(p);
                  return {};
                },
                [this](std::uint32_t p, const error& why) {
                  refusals.emplace_back(p, why.message);
                }}) {}

  void ask(std::uint32_t pipeline, std::uint32_t requests = 1) {
    models.on_load(pipeline, requests, now);
    models.decide(now);
  }
  void serve(std::uint32_t pipeline) {
    models.observe(pipeline, {.is_serving = true, .is_coming = false, .outcome = ""}, now);
  }
  void load(std::uint32_t pipeline) { // and answer the request
    ask(pipeline);
    serve(pipeline);
    ask(pipeline, 0);
    REQUIRE(models.loads_of(pipeline).phase == phase::ready);
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    models.decide(now);
  }

  std::size_t room = 10;
  std::set<std::uint32_t> broken, loaded;
  int tries = 0;
  std::vector<std::pair<std::uint32_t, std::string>> refusals;
  on_demand_models::time_point now{};
  on_demand_models models;
};

on_demand_model model_of(std::uint32_t pipeline, std::chrono::milliseconds idle = 300s,
                         bool is_pinned = false) {
  return {pipeline, fmt::format("model-{}", pipeline), idle, is_pinned};
}

} // namespace

TEST_CASE("the first request loads a model, idleness unloads it") {
  on_demand_fixture f({model_of(0), model_of(1, 0s), model_of(2, 10s, true)});
  CHECK(f.tries == 0);
  f.ask(0);
  CHECK(f.models.loads_of(0).phase == phase::loading);
  f.ask(0, 2); // joins
  CHECK(f.tries == 1);
  f.serve(0);
  f.pass(1h); // a request runs
  CHECK(f.models.loads_of(0).phase == phase::ready);
  f.ask(0, 0);
  f.load(1);
  f.load(2);
  f.pass(299s);
  CHECK(f.loaded == std::set<std::uint32_t>{0, 1, 2});
  f.pass(1s);
  CHECK(f.models.loads_of(0).phase == phase::draining);
  f.models.on_gone(0);
  CHECK(f.models.loads_of(0).phase == phase::unloaded);
  f.pass(24h); // 1 has no idle_timeout, 2 is pinned
  CHECK(f.loaded == std::set<std::uint32_t>{1, 2});
  CHECK(f.models.loads_of(0).idle_unloads == 1);
  f.load(0);
  CHECK(f.models.loads_of(0).loads == 2);
}

TEST_CASE("the least recently used idle model makes room") {
  on_demand_fixture f({model_of(0), model_of(1), model_of(2), model_of(3, 300s, true)}, 3);
  f.load(3);
  f.load(0);
  f.pass(1s);
  f.load(1);
  f.pass(1s);
  f.load(0); // used again
  f.ask(2);
  CHECK(f.models.loads_of(1).phase == phase::draining);
  CHECK(f.models.loads_of(2).phase == phase::unloaded);
  CHECK(f.models.loads_of(1).evictions == 1);
  f.pass(0s); // its processes have not ended
  CHECK(f.models.loads_of(2).phase == phase::unloaded);
  f.models.on_gone(1);
  f.pass(0s);
  CHECK(f.models.loads_of(2).phase == phase::loading);
  CHECK(f.refusals.empty());
}

TEST_CASE("one model alone makes room for one") {
  on_demand_fixture f({model_of(0), model_of(1), model_of(2)}, 2);
  f.load(0);
  f.load(1);
  f.ask(2);
  f.pass(1s); // the processes of 0 have not ended
  CHECK(f.models.loads_of(0).phase == phase::draining);
  CHECK(f.models.loads_of(1).phase == phase::ready);
  f.models.on_gone(0);
  f.pass(0s);
  CHECK(f.models.loads_of(2).phase == phase::loading);
  CHECK(f.models.loads_of(1).phase == phase::ready);
}

TEST_CASE("processes that do not end hold up the next model for a bounded time") {
  on_demand_fixture f({model_of(0), model_of(1)}, 1);
  f.load(0);
  f.ask(1);
  f.pass(unload_patience - 1ms);
  CHECK(f.models.loads_of(1).phase == phase::unloaded);
  f.pass(1ms);
  CHECK(f.models.loads_of(1).phase == phase::loading);
}

TEST_CASE("requests wait while all other models are busy, in their order") {
  on_demand_fixture f({model_of(0), model_of(1), model_of(2)}, 1);
  f.ask(0);
  f.serve(0);
  f.ask(2);
  f.pass(1s);
  f.ask(1);
  f.pass(1s);
  CHECK(f.loaded == std::set<std::uint32_t>{0});
  f.ask(0, 0);
  f.models.on_gone(0);
  f.pass(0s);
  CHECK(f.loaded == std::set<std::uint32_t>{2});
  CHECK(f.refusals.empty());
}

TEST_CASE("memory evicts as well; what never fits is refused") {
  on_demand_fixture f({model_of(0), model_of(1)});
  f.room = 1;
  f.load(0);
  f.ask(1);
  CHECK(f.models.loads_of(0).phase == phase::draining);
  f.models.on_gone(0);
  f.room = 0;
  f.pass(0s);
  REQUIRE(f.refusals.size() == 1);
  CHECK(f.refusals[0] == std::pair<std::uint32_t, std::string>{1, "no room"});
}

TEST_CASE("a model that cannot be loaded is tried with growing pauses, and refused meanwhile") {
  on_demand_fixture f({model_of(0)});
  f.broken.insert(0);
  f.ask(0);
  REQUIRE(f.refusals.size() == 1);
  CHECK(f.refusals[0].second == "the file is gone");
  int tries = 0;
  for (int i = 0; i < 600; ++i) { // a minute of a client that asks again
    f.now += 100ms;
    f.ask(0, 0);
    f.ask(0);
  }
  tries = f.tries;
  CHECK(tries <= 12);
  CHECK(f.refusals.back().second == "the model cannot be loaded: the file is gone");
  f.broken.clear();
  f.now += 14s;
  f.ask(0, 0);
  f.load(0);
}

TEST_CASE("a load that the plan gives up ends its requests with the reason") {
  on_demand_fixture f({model_of(0)});
  f.ask(0);
  f.models.observe(0, {.is_serving = false, .is_coming = true, .outcome = ""}, f.now);
  CHECK(f.models.loads_of(0).phase == phase::loading);
  f.models.observe(
      0, {.is_serving = false, .is_coming = false, .outcome = "generation 3 was given up"}, f.now);
  CHECK(f.models.loads_of(0).phase == phase::unloaded);
  REQUIRE(f.refusals.size() == 1);
  CHECK(f.refusals[0].second == "generation 3 was given up");
}

TEST_CASE("a model whose nodes are drained is loaded again by its next request") {
  on_demand_fixture f({model_of(0)});
  f.load(0);
  f.models.observe(0, {.is_serving = false, .is_coming = true, .outcome = ""}, f.now); // it moves
  CHECK(f.models.loads_of(0).phase == phase::ready);
  f.models.observe(0, {.is_serving = false, .is_coming = false, .outcome = ""}, f.now);
  CHECK(f.models.loads_of(0).phase == phase::unloaded);
  f.loaded.clear();
  f.load(0);
  CHECK(f.models.loads_of(0).loads == 2);
}

TEST_CASE("a new root takes over what is loaded") {
  on_demand_fixture f({model_of(0), model_of(1)}, 1);
  f.serve(0);
  CHECK(f.models.loads_of(0).phase == phase::ready);
  f.ask(1);
  CHECK(f.models.loads_of(0).phase == phase::draining);
}

TEST_CASE("orders of clients load and unload, and are answered once") {
  on_demand_fixture f({model_of(0), model_of(1, 300s, true)});
  std::vector<std::string> answers;
  const auto noted = [&](const char* what) {
    return [&answers, what](const result<void>& r) {
      answers.push_back(std::string(what) + (r ? "" : ": " + r.error().message));
    };
  };
  f.models.order_load(0, noted("load"), f.now);
  f.models.decide(f.now);
  f.models.order_load(0, noted("joins"), f.now);
  f.ask(0, 0); // the head has no request
  CHECK(f.models.loads_of(0).phase == phase::loading);
  f.models.order_unload(0, noted("early"), f.now);
  CHECK(answers == std::vector<std::string>{"early: the model 'model-0' has open requests, or is "
                                            "being loaded"});
  answers.clear();
  f.serve(0);
  f.models.decide(f.now);
  CHECK(answers == std::vector<std::string>{"load", "joins"});
  answers.clear();
  f.models.order_unload(0, noted("unload"), f.now);
  f.models.decide(f.now);
  CHECK(answers.empty());
  f.models.on_gone(0);
  f.models.decide(f.now);
  CHECK(answers == std::vector<std::string>{"unload"});
  CHECK(f.models.loads_of(0).phase == phase::unloaded);
  f.models.order_unload(0, noted("again"), f.now); // it is unloaded already
  f.models.decide(f.now);
  CHECK(answers.back() == "again");
  f.models.order_unload(1, noted("pinned"), f.now);
  CHECK(answers.back() == "pinned: the model 'model-1' is pinned in nodes.toml");
  f.broken.insert(0);
  f.models.order_load(0, noted("broken"), f.now);
  f.models.decide(f.now);
  CHECK(answers.back() == "broken: the file is gone");
  const auto tries = f.tries;
  f.pass(1h); // no request and no order asks for it
  CHECK(f.tries == tries);
  CHECK(f.refusals.empty());
  CHECK(f.models.find("model-1") == 1);
  CHECK_FALSE(f.models.find("none"));
}

TEST_CASE("a snapshot says since when a loaded model is idle, and for how long it stays") {
  constexpr auto wall_clock = 1'700'000'000'000ms;
  on_demand_fixture f({{0, "a", 10s, false}, {1, "pinned", 10s, true}, {2, "b", 0s, false}});
  CHECK(f.models.snapshot(wall_clock).at(0).idle_since == 0); // not loaded
  CHECK(f.models.snapshot(wall_clock).at(0).keep_alive == 10'000);
  CHECK(f.models.snapshot(wall_clock).at(1).keep_alive == -1);
  CHECK(f.models.snapshot(wall_clock).at(2).keep_alive == -1);
  f.pass(1s);
  f.load(0);
  const auto idle = f.models.snapshot(wall_clock);
  CHECK(idle.at(0).idle_since == 1'700'000'001'000);
  f.pass(3s);
  CHECK(f.models.snapshot(wall_clock) == idle); // it is sent once
  f.ask(0);
  CHECK(f.models.snapshot(wall_clock).at(0).idle_since == 0); // it has a request
  f.pass(1s);
  f.ask(0, 0);
  CHECK(f.models.snapshot(wall_clock).at(0).idle_since == 1'700'000'005'000);
  f.models.keep(0, 1min, f.now);
  CHECK(f.models.snapshot(wall_clock).at(0).keep_alive == 60'000);
  f.models.keep(0, -1ms, f.now);
  CHECK(f.models.snapshot(wall_clock).at(0).keep_alive == -1);
}

TEST_CASE("a restarted root goes by the keep_alive of the models that it finds loaded") {
  on_demand_fixture f({{0, "a", 10s, false}, {1, "b", 10s, false}});
  f.models.restore({{"a", 60s}, {"b", 60s}, {"gone", 1s}});
  f.serve(0); // an earlier root has loaded it
  CHECK(f.models.snapshot(0ms).at(0).keep_alive == 60'000);
  CHECK(f.models.kept() == kept_models{{"a", 60s}, {"b", 60s}});
  f.load(1); // anew
  CHECK(f.models.snapshot(0ms).at(1).keep_alive == 10'000);
  CHECK(f.models.kept() == kept_models{{"a", 60s}});
  f.models.keep(0, 30s, f.now);
  CHECK(f.models.kept() == kept_models{{"a", 30s}});
}

TEST_CASE("a client's keep_alive takes the place of idle_timeout until the model is unloaded") {
  on_demand_fixture f({{0, "a", 10s, false}, {1, "pinned", 0s, true}});
  f.load(0);
  f.models.keep(0, 60s, f.now);
  f.pass(59s);
  CHECK(f.loaded.contains(0));
  f.models.keep(0, 1min, f.now); // from this request on
  f.pass(59s);
  CHECK(f.loaded.contains(0));
  f.pass(1s);
  CHECK_FALSE(f.loaded.contains(0));
  f.models.on_gone(0);
  f.load(0); // without it
  f.pass(10s);
  CHECK_FALSE(f.loaded.contains(0));
  f.models.on_gone(0);
  f.models.keep(0, -1ms, f.now); // with the request that loads it
  f.load(0);
  f.pass(24h);
  CHECK(f.loaded.contains(0));
  f.ask(0);
  f.models.keep(0, 0ms, f.now);
  f.pass(1h); // it has a request
  CHECK(f.loaded.contains(0));
  f.ask(0, 0);
  f.pass(keep_alive_min);
  CHECK_FALSE(f.loaded.contains(0));
  CHECK(f.models.loads_of(0).idle_unloads == 3);
  f.load(1);
  f.models.keep(1, 0ms, f.now);
  f.pass(1h);
  CHECK(f.loaded.contains(1)); // it is pinned
}
