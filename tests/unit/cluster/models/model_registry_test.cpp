#include "cluster/models/model_registry.hpp"
#include "cluster/plan/worker_slots.hpp"
#include "schema/limits.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {

scanned_version version(std::string number, std::uint64_t digest, std::uint32_t count = 1) {
  scanned_version v;
  v.version = std::move(number);
  v.digest = digest;
  v.table = fmt::format("[[workers]]\nname = \"m\"\nversion = \"{}\"\ncommand = [\"true\"]\n"
                        "count = {}\n",
                        v.version, count);
  v.worker.count = count;
  v.worker.startup_timeout = 10s;
  return v;
}

scanned_version broken(std::string number, std::uint64_t digest, std::string why) {
  auto v = version(std::move(number), digest);
  v.refusal = std::move(why);
  return v;
}

struct registry_fixture {
  model_registry::instant now{};
  cluster_config config;
  model_registry registry;
  process_id gateway_id{2};

  explicit registry_fixture(model_control control, std::vector<std::string> load_models = {},
                            std::uint32_t gateways = 1)
      : config(config_with(gateways)),
        registry(how(control, std::move(load_models), gateways), config) {}

  static cluster_config config_with(std::uint32_t gateways) {
    cluster_config c;
    c.gateway.processes = gateways;
    worker_config w;
    w.name = "fixed";
    w.count = gateways;
    c.workers.push_back(w);
    return c;
  }
  static model_registry::options how(model_control control, std::vector<std::string> load_models,
                                     std::uint32_t gateways) {
    model_registry::options o;
    o.control = control;
    o.load_models = std::move(load_models);
    o.gateways = gateways;
    o.drain_max = 30s;
    return o;
  }

  std::vector<served_model> all_of(const std::string& name) {
    std::vector<served_model> out;
    for (const auto& m : registry.snapshot().all)
      if (m.name == name)
        out.push_back(m);
    return out;
  }
  served_model only(const std::string& name) {
    const auto all = all_of(name);
    REQUIRE(all.size() == 1);
    return all.front();
  }
  void make_ready(const served_model& m) {
    for (const auto& w : m.workers)
      registry.on_ready(w.process, now);
  }
  void let_go(const served_model& m) {
    for (const auto& w : m.workers)
      registry.on_gone(w.process, now);
  }
  std::optional<error> answer() {
    const auto all = registry.take_answers();
    REQUIRE(all.size() == 1);
    return all.front().what.failure;
  }
};

} // namespace

TEST_CASE("an index that is too long for a message says how many models are missing") {
  registry_fixture f(model_control::clients); // with one model of nodes.toml
  scanned_models many;
  for (std::size_t i = 0; i < limits::nodes_max + 9; ++i)
    many[fmt::format("m{:05}", i)] = {version("1", 1)};
  f.registry.take(many, f.now);
  const auto all = f.registry.snapshot().all;
  REQUIRE(all.size() == limits::nodes_max);
  CHECK(all.front().name != more_models_name);
  CHECK(all.back().name == more_models_name);
  CHECK(all.back().state == model_state::unavailable);
  CHECK(all.back().reason == "11 more models are not listed: at most 4095 are");
  many.erase(std::next(many.begin(), limits::nodes_max - 1), many.end());
  f.registry.take(many, f.now);
  CHECK(f.registry.snapshot().all.size() == limits::nodes_max);
  CHECK(f.registry.snapshot().all.back().name != more_models_name);
}

TEST_CASE("a model of the repository loads, and is ready when all its workers are") {
  registry_fixture f(model_control::none);
  f.registry.take({{"m", {version("1", 7, 2)}}}, f.now);
  auto m = f.only("m");
  CHECK(m.state == model_state::loading);
  REQUIRE(m.workers.size() == 2);
  CHECK(m.workers[0].name == "worker-m-0");
  CHECK(m.workers[0].process != f.only("fixed").workers[0].process);
  f.registry.on_ready(m.workers[0].process, f.now);
  CHECK(f.only("m").state == model_state::loading);
  f.registry.on_ready(m.workers[1].process, f.now);
  CHECK(f.only("m").state == model_state::ready);
}

TEST_CASE("each gateway has a worker of each model") {
  registry_fixture f(model_control::none, {}, 3);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  std::set<std::uint32_t> gateways;
  for (const auto& w : f.only("m").workers)
    gateways.insert(w.gateway_index);
  CHECK(gateways == std::set<std::uint32_t>{0, 1, 2});
}

TEST_CASE("a model that cannot be served gives a reason and does not affect the others") {
  registry_fixture f(model_control::none);
  f.registry.take({{"bad", {broken("1", 1, "it is an ensemble")}}, {"m", {version("1", 7)}}},
                  f.now);
  CHECK(f.only("bad").state == model_state::unavailable);
  CHECK(f.only("bad").reason == "it is an ensemble");
  CHECK(f.only("bad").workers.empty());
  CHECK(f.only("m").state == model_state::loading);
}

TEST_CASE("a worker that ends while its model loads makes it unavailable, without a retry") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  const auto before = f.only("m");
  f.registry.on_end(before.workers[0].process, "exit status 1: no weights", f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "exit status 1: no weights");
  CHECK(f.only("m").workers.empty());
  f.let_go(before);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  f.registry.take({{"m", {version("1", 8)}}}, f.now); // other files
  CHECK(f.only("m").state == model_state::loading);
}

TEST_CASE("a worker that ends once its model is ready is left to the supervisor") {
  registry_fixture f(model_control::none);
  f.registry.take({{"m", {version("1", 7, 2)}}}, f.now);
  const auto m = f.only("m");
  f.make_ready(m);
  f.registry.on_end(m.workers[0].process, "killed by signal 9", f.now);
  CHECK(f.only("m").state == model_state::ready);
  f.registry.on_given_up(m.workers[0].process, "crash_loop", f.now);
  CHECK(f.only("m").state == model_state::ready);
  f.registry.on_given_up(m.workers[1].process, "crash_loop", f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "crash_loop");
}

TEST_CASE("a worker killed for a late start is reported as late") {
  registry_fixture f(model_control::none);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  f.now += 11s;
  f.registry.on_end(f.only("m").workers[0].process, "killed by signal 9", f.now);
  CHECK(f.only("m").reason == "a worker was not ready within 10 s");
}

TEST_CASE("changed files: the new revision comes first, then the old one drains and ends") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  const auto old = f.only("m");
  f.make_ready(old);
  f.registry.take({{"m", {version("1", 8)}}}, f.now);
  auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::ready);
  CHECK(all[1].state == model_state::loading);
  CHECK(all[1].workers[0].name == "worker-m-1"); // the other is still there
  f.make_ready(all[1]);
  all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::unloading);
  CHECK(all[1].state == model_state::ready);
  f.registry.on_drained(0, all[0].revision, f.now);
  CHECK(f.only("m").revision == all[1].revision);
  // Its process has not ended: its name is in use.
  f.registry.take({{"m", {version("1", 9)}}}, f.now);
  CHECK(f.all_of("m")[1].workers[0].name == "worker-m-2");
  f.let_go(old);
  f.registry.take({{"m", {version("1", 10)}}}, f.now);
  CHECK(f.all_of("m").back().workers[0].name == "worker-m-0");
}

TEST_CASE("changed files that cannot be served leave the serving revision, and are reported") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  const auto old = f.only("m");
  f.make_ready(old);
  f.registry.take({{"m", {version("1", 8)}}}, f.now);
  f.registry.on_end(f.all_of("m")[1].workers[0].process, "SyntaxError", f.now);
  CHECK(f.only("m").revision == old.revision);
  CHECK(f.only("m").state == model_state::ready);
  CHECK(f.only("m").reason == "its files have changed, and cannot be served: SyntaxError");
  f.registry.take({{"m", {version("1", 7)}}}, f.now); // restored
  CHECK(f.only("m").reason.empty());
}

TEST_CASE("a removed directory drains at every gateway and ends, at the latest after its timeout") {
  registry_fixture f(model_control::poll, {}, 2);
  f.registry.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.make_ready(f.only("n"));
  f.registry.take({}, f.now);
  CHECK(f.only("m").state == model_state::unloading);
  CHECK(f.only("m").workers.size() == 2);
  f.registry.on_drained(0, f.only("m").revision, f.now);
  CHECK(f.only("m").state == model_state::unloading);
  f.registry.on_drained(1, f.only("m").revision, f.now);
  CHECK(f.all_of("m").empty());
  f.now += 29s;
  f.registry.tick(f.now);
  CHECK(f.only("n").state == model_state::unloading);
  f.now += 2s;
  f.registry.tick(f.now);
  CHECK(f.all_of("n").empty());
}

TEST_CASE("a newer version replaces the one before when it is ready") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.registry.take({{"m", {version("2", 8)}}}, f.now);
  auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::ready);
  f.make_ready(all[1]);
  all = f.all_of("m");
  CHECK(all[0].state == model_state::unloading);
  CHECK(all[1].version == "2");
}

TEST_CASE("several versions are served at the same time, separately") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7), version("2", 8)}}}, f.now);
  auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  f.make_ready(all[0]);
  f.registry.on_end(all[1].workers[0].process, "no", f.now);
  all = f.all_of("m");
  CHECK(all[0].state == model_state::ready);
  CHECK(all[1].state == model_state::unavailable);
  f.registry.take({{"m", {version("1", 7), version("2", 9)}}}, f.now); // only the other one's files
  CHECK(f.all_of("m")[0].revision == all[0].revision);
}

TEST_CASE("explicit: a model that is not listed at start is not loaded, but shown") {
  registry_fixture f(model_control::clients, {"n"});
  f.registry.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, f.now);
  CHECK(f.only("n").state == model_state::loading);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "not loaded");
  registry_fixture all(model_control::clients, {"*"});
  all.registry.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, all.now);
  CHECK(all.only("m").state == model_state::loading);
}

TEST_CASE("explicit: a load is answered when the model is ready") {
  registry_fixture f(model_control::clients);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  f.registry.load(f.gateway_id, 5, "m", f.now);
  CHECK(f.registry.take_answers().empty());
  f.make_ready(f.only("m"));
  const auto all = f.registry.take_answers();
  REQUIRE(all.size() == 1);
  CHECK(all[0].gateway == f.gateway_id);
  CHECK(all[0].what.request == 5);
  CHECK_FALSE(all[0].what.failure);
  f.registry.load(f.gateway_id, 6, "m", f.now); // nothing has changed
  CHECK_FALSE(f.answer());
  CHECK(f.only("m").state == model_state::ready);
}

TEST_CASE("explicit: a load that fails gives a reason, and the next one tries again") {
  registry_fixture f(model_control::clients);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  f.registry.load(f.gateway_id, 5, "m", f.now);
  const auto before = f.only("m");
  f.registry.on_end(before.workers[0].process, "exit status 1: no weights", f.now);
  auto failure = f.answer();
  REQUIRE(failure);
  CHECK(failure->message == "failed to load 'm', version 1: exit status 1: no weights");
  f.registry.load(f.gateway_id, 6, "m", f.now);
  CHECK(f.registry.take_answers().empty());
  f.make_ready(f.all_of("m").back());
  CHECK_FALSE(f.answer());
  f.let_go(before);
  CHECK(f.only("m").state == model_state::ready);
}

TEST_CASE("explicit: a missing model cannot be loaded or unloaded") {
  registry_fixture f(model_control::clients);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  // A name is looked up among those found in the directory: none of these is used as a path.
  for (const auto* name : {"x", "", ".", "..", "../m", "./m", "m/", "m/1", "m/../m", "/etc", "M"}) {
    CAPTURE(name);
    f.registry.load(f.gateway_id, 5, name, f.now);
    CHECK(f.answer()->code == errc::model_not_found);
    f.registry.unload(f.gateway_id, 5, name, f.now);
    CHECK(f.answer()->code == errc::model_not_found);
  }
}

TEST_CASE("explicit: an unload is answered when requests are no longer accepted") {
  registry_fixture f(model_control::clients, {"m"});
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.registry.unload(f.gateway_id, 5, "m", f.now);
  CHECK_FALSE(f.answer());
  const auto m = f.only("m");
  CHECK(m.state == model_state::unloading);
  f.registry.on_drained(0, m.revision, f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "unloaded");
  CHECK(f.only("m").workers.empty());
}

TEST_CASE("explicit: a model loaded again while it drains is a separate revision") {
  registry_fixture f(model_control::clients, {"m"});
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  const auto old = f.only("m");
  f.make_ready(old);
  f.registry.unload(f.gateway_id, 5, "m", f.now);
  CHECK_FALSE(f.answer());
  f.registry.load(f.gateway_id, 6, "m", f.now);
  f.registry.on_drained(0, old.revision, f.now);
  CHECK(f.registry.take_answers().empty());
  CHECK(f.only("m").state == model_state::loading);
  f.make_ready(f.only("m"));
  CHECK_FALSE(f.answer());
  CHECK(f.only("m").state == model_state::ready);
  CHECK(f.only("m").reason.empty());
  f.let_go(old);
  CHECK(f.only("m").revision > old.revision);
}

TEST_CASE("explicit: an unload cancels a load in progress") {
  registry_fixture f(model_control::clients);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  f.registry.load(f.gateway_id, 5, "m", f.now);
  f.registry.unload(f.gateway_id, 6, "m", f.now);
  const auto all = f.registry.take_answers();
  REQUIRE(all.size() == 2);
  CHECK(all[0].what.request == 5);
  CHECK(all[0].what.failure->code == errc::cancelled);
  CHECK_FALSE(all[1].what.failure);
}

TEST_CASE("explicit: changed files wait for the next load, which replaces the model") {
  registry_fixture f(model_control::clients, {"m"});
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.registry.take({{"m", {version("1", 8)}}}, f.now);
  CHECK(f.all_of("m").size() == 1);
  f.registry.load(f.gateway_id, 5, "m", f.now);
  const auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::ready);
  f.make_ready(all[1]);
  CHECK_FALSE(f.answer());
  CHECK(f.all_of("m")[0].state == model_state::unloading);
}

TEST_CASE("the next root takes over the running models, and restarts nothing") {
  registry_fixture f(model_control::clients, {"m"});
  f.registry.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.registry.load(f.gateway_id, 5, "n", f.now);
  registry_fixture next(model_control::clients, {"m"});
  next.registry.restore(f.registry.record(), next.now);
  next.registry.take({{"m", {version("1", 8)}}, {"n", {version("1", 7)}}}, next.now);
  CHECK(next.only("m").revision == f.only("m").revision);
  CHECK(next.only("m").state == model_state::ready);
  CHECK(next.only("n").state == model_state::loading);
  CHECK(next.only("n").workers[0].process == f.only("n").workers[0].process);
}

TEST_CASE("a recorded model whose configuration is not readable is dropped") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, f.now);
  auto record = f.registry.record();
  REQUIRE(record.all.size() == 2);
  for (auto& one : record.all)
    if (one.model.name == "m")
      one.model.config = "batch_size = \"of another build\"";
  registry_fixture next(model_control::poll);
  next.registry.restore(record, next.now);
  CHECK(next.all_of("m").empty());
  CHECK(next.all_of("n").size() == 1);
}

TEST_CASE("the next root lets draining models end") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7)}}}, f.now);
  const auto m = f.only("m");
  f.make_ready(m);
  f.registry.take({}, f.now);
  f.registry.on_drained(0, m.revision, f.now);
  registry_fixture next(model_control::poll);
  next.registry.restore(f.registry.record(), next.now);
  next.registry.take({}, next.now);
  CHECK(next.only("m").state == model_state::unloading);
  next.registry.on_drained(0, m.revision, next.now);
  CHECK(next.all_of("m").empty());
}

TEST_CASE("workers of nodes.toml are registered unchanged") {
  registry_fixture f(model_control::none);
  const auto m = f.only("fixed");
  CHECK_FALSE(m.is_of_repository);
  CHECK(m.workers[0].name == "worker-fixed-0");
  CHECK(m.workers[0].process == worker_slots(f.config)[0].process);
  f.registry.on_ready(m.workers[0].process, f.now);
  CHECK(f.only("fixed").state == model_state::ready);
  f.registry.on_given_up(m.workers[0].process, "crash_loop", f.now);
  CHECK(f.only("fixed").state == model_state::unavailable);
  CHECK(f.only("fixed").workers.size() == 1); // shown as given up
}

TEST_CASE("a model that exceeds the limit of workers is refused alone") {
  registry_fixture f(model_control::poll);
  f.registry.take({{"m", {version("1", 7, workers_of_cluster_max)}}, {"n", {version("1", 7)}}},
                  f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason.find("a cluster has at most 1024") != std::string::npos);
  CHECK(f.only("n").state == model_state::loading);
}

TEST_CASE("an unknown name in load_models is shown with its reason until it exists") {
  registry_fixture f(model_control::clients, {"good", "god", "*"});
  f.registry.take({{"good", {version("1", 7)}}}, f.now);
  CHECK(f.only("good").state == model_state::loading);
  const auto missing = f.only("god");
  CHECK(missing.state == model_state::unavailable);
  CHECK(missing.revision != 0); // `cluster status` shows those
  CHECK(missing.reason == "load_models names it, and the model repository has no such directory; "
                          "did you mean 'good'?");
  f.registry.take({{"god", {version("1", 8)}}, {"good", {version("1", 7)}}}, f.now);
  CHECK(f.only("god").reason == "not loaded");
}

TEST_CASE("a model that is not loaded is reported, with the reason if it cannot be") {
  registry_fixture f(model_control::clients, {});
  f.registry.take({{"bad", {broken("1", 1, "it is an ensemble")}}}, f.now);
  CHECK(f.only("bad").reason == "not loaded; it cannot be: it is an ensemble");
}

TEST_CASE("an ignored part of a model is its reason while it is ready") {
  registry_fixture f(model_control::none);
  auto v = version("1", 7);
  v.notes = {"a is left out: b", "c is left out: d"};
  f.registry.take({{"m", {v}}}, f.now);
  CHECK(f.only("m").reason.empty());
  f.make_ready(f.only("m"));
  CHECK(f.only("m").state == model_state::ready);
  CHECK(f.only("m").reason == "a is left out: b; c is left out: d");
}
