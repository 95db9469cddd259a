// Models of a store in the registry: registered, unregistered, scaled, set as default. No files, no
// processes.
#include "cluster/models/model_registry.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace baton;
using namespace baton::cluster;
using namespace std::chrono_literals;

namespace {

stored_model stored_archive(std::string version, std::uint32_t workers, std::string name = "m") {
  stored_model out;
  out.name = std::move(name);
  auto& v = out.version;
  v.version = std::move(version);
  v.digest = std::hash<std::string>()(v.version);
  v.archive = "m.mar";
  v.workers = workers;
  v.table = fmt::format("[[workers]]\nname = \"{}\"\nversion = \"{}\"\ncommand = [\"true\"]\n",
                        out.name, v.version);
  v.worker.startup_timeout = 10s;
  return out;
}

struct enlisted_fixture {
  model_registry::instant now{};
  cluster_config config;
  model_registry registry;
  process_id gateway_id{2};
  std::uint64_t requests = 0;

  explicit enlisted_fixture(std::uint32_t gateways = 1)
      : config(config_with(gateways)), registry(how(gateways), config) {}

  static cluster_config config_with(std::uint32_t gateways) {
    cluster_config c;
    c.gateway.processes = gateways;
    worker_config w;
    w.name = "fixed";
    w.count = gateways;
    c.workers.push_back(w);
    return c;
  }
  static model_registry::options how(std::uint32_t gateways) {
    model_registry::options o;
    o.gateways = gateways;
    return o;
  }
  change_model order(std::string version = "", bool waits = true, std::string model = "m") {
    change_model out;
    out.request = ++requests;
    out.model = std::move(model);
    out.version = std::move(version);
    out.waits = waits;
    return out;
  }
  void register_model(std::string version, std::uint32_t workers, bool waits = true) {
    registry.register_model(gateway_id, order("", waits),
                            stored_archive(std::move(version), workers), now);
  }
  void scale(std::uint32_t least, std::uint32_t most, bool waits = true) {
    auto o = order("", waits);
    o.settings.workers_min = least;
    o.settings.workers_max = most;
    registry.scale(gateway_id, o, now);
  }
  std::vector<served_model> all() {
    std::vector<served_model> out;
    for (const auto& m : registry.snapshot().all)
      if (m.name == "m")
        out.push_back(m);
    return out;
  }
  served_model only() {
    const auto those = all();
    REQUIRE(those.size() == 1);
    return those.front();
  }
  void make_ready() {
    for (const auto& m : all())
      for (const auto& w : m.workers)
        registry.on_ready(w.process, now);
  }
  model_changed answer() {
    const auto all_answers = registry.take_answers();
    REQUIRE(all_answers.size() == 1);
    return all_answers.front().what;
  }
  bool is_answered() { return !registry.take_answers().empty(); }
};

} // namespace

TEST_CASE("a model of a store is served when all its workers are ready") {
  enlisted_fixture f;
  f.register_model("1.0", 2);
  CHECK(f.only().state == model_state::loading);
  CHECK(f.only().is_of_repository);
  CHECK(f.only().archive == "m.mar");
  const auto workers = f.only().workers;
  REQUIRE(workers.size() == 2);
  f.registry.on_ready(workers[0].process, f.now);
  CHECK_FALSE(f.is_answered());
  f.registry.on_ready(workers[1].process, f.now);
  const auto reply = f.answer();
  CHECK_FALSE(reply.failure);
  CHECK(reply.model == "m");
  CHECK(reply.version == "1.0");
  CHECK(reply.workers == 2);
  CHECK(f.only().state == model_state::ready);
}

TEST_CASE("a client that does not wait is answered at once, and a model may have no workers") {
  enlisted_fixture f;
  f.register_model("1.0", 1, /*waits=*/false);
  CHECK(f.answer().workers == 1);
  CHECK(f.only().state == model_state::loading);
  enlisted_fixture g;
  g.register_model("1.0", 0);
  CHECK(g.answer().workers == 0);
  CHECK(g.only().state == model_state::ready);
  CHECK(g.only().workers.empty());
}

TEST_CASE("a model that fails is unregistered") {
  enlisted_fixture f;
  f.register_model("1.0", 1);
  const auto worker = f.only().workers.front().process;
  f.registry.on_end(worker, "exit status 78: no weights", f.now);
  const auto reply = f.answer();
  REQUIRE(reply.failure);
  CHECK(reply.failure->code == errc::start_failed);
  CHECK(reply.failure->message.find("no weights") != std::string::npos);
  CHECK(f.all().empty());
  f.registry.on_gone(worker, f.now);
  f.register_model("1.0", 1); // another try
  CHECK(f.only().state == model_state::loading);
}

TEST_CASE("a model that nodes.toml loads at start stays when it fails, and may be tried again") {
  enlisted_fixture f;
  change_model at_start;
  at_start.model = "m";
  f.registry.register_model({}, at_start, stored_archive("1.0", 1), f.now);
  CHECK_FALSE(f.is_answered());
  f.registry.on_end(f.only().workers.front().process, "no weights", f.now);
  CHECK(f.only().state == model_state::unavailable);
  CHECK(f.only().reason == "no weights");
  f.scale(1, 1);
  CHECK(f.only().state == model_state::loading);
}

TEST_CASE("a version is registered once, and names are unique") {
  enlisted_fixture f;
  f.register_model("1.0", 1, false);
  (void)f.answer();
  f.register_model("1.0", 1);
  CHECK(f.answer().failure->message == "Model version 1.0 is already registered for model m");
  f.registry.register_model(f.gateway_id, f.order("", true, "fixed"),
                            stored_archive("1.0", 1, "fixed"), f.now);
  CHECK(f.answer().failure->code == errc::conflict);
}

TEST_CASE("an unregistered model accepts no requests, and ends when it has drained") {
  enlisted_fixture f;
  f.register_model("1.0", 1);
  f.make_ready();
  (void)f.answer();
  f.registry.unregister_model(f.gateway_id, f.order(), f.now);
  CHECK_FALSE(f.answer().failure);
  const auto m = f.only();
  CHECK(m.state == model_state::unloading);
  f.register_model("1.0", 1); // at once, beside it
  CHECK(f.all().size() == 2);
  f.registry.on_drained(0, m.revision, f.now);
  CHECK(f.only().state == model_state::loading);
  CHECK(f.only().workers.front().name != m.workers.front().name);
  f.registry.unregister_model(f.gateway_id, f.order("", true, "unknown"), f.now);
  const auto reply = f.registry.take_answers().back().what;
  CHECK(reply.failure->code == errc::model_not_found);
}

TEST_CASE("an unregistered model was loading: waiting clients are answered") {
  enlisted_fixture f;
  f.register_model("1.0", 1);
  f.registry.unregister_model(f.gateway_id, f.order(), f.now);
  const auto answers = f.registry.take_answers();
  REQUIRE(answers.size() == 2);
  CHECK_FALSE(answers[0].what.failure);
  CHECK(answers[1].what.failure->code == errc::cancelled);
  CHECK(f.all().empty());
}

TEST_CASE("scaled up, running workers continue while others load") {
  enlisted_fixture f;
  f.register_model("1.0", 1);
  f.make_ready();
  (void)f.answer();
  const auto before = f.only();
  f.scale(3, 3);
  const auto now = f.only();
  CHECK(now.state == model_state::ready);
  CHECK(now.revision == before.revision);
  REQUIRE(now.workers.size() == 3);
  CHECK(now.workers.front().process == before.workers.front().process);
  f.registry.on_ready(now.workers[1].process, f.now);
  CHECK_FALSE(f.is_answered());
  f.registry.on_ready(now.workers[2].process, f.now);
  CHECK(f.answer().workers == 3);
}

TEST_CASE("further workers that fail are removed, and running ones continue") {
  enlisted_fixture f;
  f.register_model("1.0", 1);
  f.make_ready();
  (void)f.answer();
  f.scale(2, 2);
  const auto second = f.only().workers[1];
  f.registry.on_end(second.process, "out of memory", f.now);
  CHECK(f.answer().failure->code == errc::start_failed);
  CHECK(f.only().state == model_state::ready);
  CHECK(f.only().workers.size() == 1);
  f.scale(2, 2); // its id is reused after its end
  CHECK(f.only().workers[1].name != second.name);
}

TEST_CASE("scaled down, the last ones leave; to none, and up again") {
  enlisted_fixture f;
  f.register_model("1.0", 3);
  f.make_ready();
  (void)f.answer();
  const auto before = f.only();
  f.scale(1, 2);
  CHECK(f.answer().workers == 2);
  CHECK(f.only().workers.size() == 2);
  CHECK(f.only().workers[0].process == before.workers[0].process);
  const auto noted = f.registry.record();
  REQUIRE(noted.all.size() == 2); // a later root lets the third end as well
  CHECK(noted.all[1].model.state == model_state::unloading);
  CHECK(noted.all[1].model.workers.front().process == before.workers[2].process);
  CHECK(noted.all[1].model.revision != before.revision);
  f.registry.on_gone(before.workers[2].process, f.now);
  CHECK(f.registry.record().all.size() == 1);
  f.scale(0, 0);
  CHECK(f.answer().workers == 0);
  CHECK(f.only().state == model_state::ready);
  CHECK(f.only().workers.empty());
  f.scale(1, 1, /*waits=*/false);
  CHECK(f.answer().workers == 1);
  CHECK(f.only().workers.size() == 1);
}

TEST_CASE("each gateway has a worker of its own") {
  enlisted_fixture f(2);
  f.register_model("1.0", 1, false);
  const auto workers = f.only().workers;
  REQUIRE(workers.size() == 2);
  CHECK(workers[0].gateway_index != workers[1].gateway_index);
  CHECK(f.answer().workers == 2);
}

TEST_CASE("one of several versions is the default, and is removed last") {
  enlisted_fixture f;
  f.register_model("1.0", 1, false);
  f.register_model("2.0", 1, false);
  f.make_ready();
  (void)f.registry.take_answers();
  const auto default_of = [&] {
    for (const auto& m : f.all())
      if (m.is_default)
        return m.version;
    return std::string();
  };
  CHECK(default_of() == "1.0");
  f.registry.unregister_model(f.gateway_id, f.order(), f.now);
  CHECK(f.answer().failure->message == "Cannot remove default version 1.0 for model m");
  f.registry.set_default(f.gateway_id, f.order("3.0"));
  CHECK(f.answer().failure->param == "model_version");
  f.registry.set_default(f.gateway_id, f.order("2.0"));
  CHECK_FALSE(f.answer().failure);
  CHECK(default_of() == "2.0");
  f.registry.unregister_model(f.gateway_id, f.order("1.0"), f.now);
  CHECK_FALSE(f.answer().failure);
}

TEST_CASE("the next root takes over registrations, scales and defaults") {
  enlisted_fixture f;
  f.register_model("1.0", 1, false);
  f.register_model("2.0", 0, false);
  f.make_ready();
  f.registry.set_default(f.gateway_id, f.order("2.0"));
  enlisted_fixture g;
  g.registry.restore(f.registry.record(), g.now);
  CHECK(g.all().size() == 2);
  for (const auto& m : g.all()) {
    CHECK(m.state == model_state::ready);
    CHECK(m.is_default == (m.version == "2.0"));
    CHECK(m.workers.size() == (m.version == "1.0" ? 1 : 0));
  }
  g.registry.unregister_model(g.gateway_id, g.order("1.0"), g.now);
  CHECK_FALSE(g.answer().failure);
}

TEST_CASE("an archive of load_models that cannot be registered is shown until it can") {
  enlisted_fixture f;
  f.registry.reject("m.mar", "m.mar", "it is no model archive: x");
  const auto find = [&] {
    std::vector<served_model> out;
    for (const auto& m : f.registry.snapshot().all)
      if (m.name == "m.mar")
        out.push_back(m);
    return out;
  };
  REQUIRE(find().size() == 1);
  CHECK(find()[0].state == model_state::unavailable);
  CHECK(find()[0].reason == "it is no model archive: x");
  CHECK(find()[0].revision != 0);
  CHECK(f.registry.record().rejected.size() == 1); // a later root shows it too
  f.registry.reject("m.mar", "m.mar", "another reason");
  REQUIRE(find().size() == 1);
  CHECK(find()[0].reason == "another reason");
  f.register_model("1.0", 1);
  CHECK(find().empty());
}

TEST_CASE("of two archives with one name and version the second is ignored") {
  enlisted_fixture f;
  f.register_model("1.0", 1);
  auto order = f.order();
  order.request = 0; // of load_models
  order.archive = "again.mar";
  order.model = "";
  auto second = stored_archive("1.0", 1);
  second.version.archive = "again.mar";
  f.registry.register_model({}, order, second, f.now);
  bool is_shown = false;
  for (const auto& m : f.registry.snapshot().all)
    is_shown |= m.name == "again.mar" && m.reason.find("already registered") != std::string::npos;
  CHECK(is_shown);
}
