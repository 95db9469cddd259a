#include "cluster/models/repository_book.hpp"
#include "cluster/plan/worker_slots.hpp"

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

struct book_fixture {
  repository_book::instant now{};
  cluster_config config;
  repository_book book;
  process_id gateway_id{2};

  explicit book_fixture(model_control control, std::vector<std::string> load_models = {},
                        std::uint32_t gateways = 1)
      : config(config_with(gateways)),
        book(how(control, std::move(load_models), gateways), config) {}

  static cluster_config config_with(std::uint32_t gateways) {
    cluster_config c;
    c.gateway.processes = gateways;
    worker_config w;
    w.name = "fixed";
    w.count = gateways;
    c.workers.push_back(w);
    return c;
  }
  static repository_book::options how(model_control control, std::vector<std::string> load_models,
                                      std::uint32_t gateways) {
    repository_book::options o;
    o.control = control;
    o.load_models = std::move(load_models);
    o.gateways = gateways;
    o.drain_max = 30s;
    return o;
  }

  std::vector<served_model> all_of(const std::string& name) {
    std::vector<served_model> out;
    for (const auto& m : book.standing().all)
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
      book.on_ready(w.process, now);
  }
  void let_go(const served_model& m) {
    for (const auto& w : m.workers)
      book.on_gone(w.process, now);
  }
  std::optional<error> answer() {
    const auto all = book.take_answers();
    REQUIRE(all.size() == 1);
    return all.front().what.failure;
  }
};

} // namespace

TEST_CASE("a model of the repository loads, and is ready when all its workers are") {
  book_fixture f(model_control::none);
  f.book.take({{"m", {version("1", 7, 2)}}}, f.now);
  auto m = f.only("m");
  CHECK(m.state == model_state::loading);
  REQUIRE(m.workers.size() == 2);
  CHECK(m.workers[0].name == "worker-m-0");
  CHECK(m.workers[0].process != f.only("fixed").workers[0].process);
  f.book.on_ready(m.workers[0].process, f.now);
  CHECK(f.only("m").state == model_state::loading);
  f.book.on_ready(m.workers[1].process, f.now);
  CHECK(f.only("m").state == model_state::ready);
}

TEST_CASE("each gateway has a worker of each model") {
  book_fixture f(model_control::none, {}, 3);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  std::set<std::uint32_t> gateways;
  for (const auto& w : f.only("m").workers)
    gateways.insert(w.gateway_index);
  CHECK(gateways == std::set<std::uint32_t>{0, 1, 2});
}

TEST_CASE("one that cannot be served says why and costs the others nothing") {
  book_fixture f(model_control::none);
  f.book.take({{"bad", {broken("1", 1, "it is an ensemble")}}, {"m", {version("1", 7)}}}, f.now);
  CHECK(f.only("bad").state == model_state::unavailable);
  CHECK(f.only("bad").reason == "it is an ensemble");
  CHECK(f.only("bad").workers.empty());
  CHECK(f.only("m").state == model_state::loading);
}

TEST_CASE("a worker that ends while its model loads makes it unavailable, and is not tried again") {
  book_fixture f(model_control::poll);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  const auto before = f.only("m");
  f.book.on_end(before.workers[0].process, "exit status 1: no weights", f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "exit status 1: no weights");
  CHECK(f.only("m").workers.empty());
  f.let_go(before);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  f.book.take({{"m", {version("1", 8)}}}, f.now); // other files
  CHECK(f.only("m").state == model_state::loading);
}

TEST_CASE("a worker that ends once its model is ready is the supervisor's matter") {
  book_fixture f(model_control::none);
  f.book.take({{"m", {version("1", 7, 2)}}}, f.now);
  const auto m = f.only("m");
  f.make_ready(m);
  f.book.on_end(m.workers[0].process, "killed by signal 9", f.now);
  CHECK(f.only("m").state == model_state::ready);
  f.book.on_given_up(m.workers[0].process, "crash_loop", f.now);
  CHECK(f.only("m").state == model_state::ready);
  f.book.on_given_up(m.workers[1].process, "crash_loop", f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "crash_loop");
}

TEST_CASE("one that is killed for being late is said to be late") {
  book_fixture f(model_control::none);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  f.now += 11s;
  f.book.on_end(f.only("m").workers[0].process, "killed by signal 9", f.now);
  CHECK(f.only("m").reason == "a worker was not ready within 10 s");
}

TEST_CASE("changed files: the new revision comes first, then the old one drains and goes") {
  book_fixture f(model_control::poll);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  const auto old = f.only("m");
  f.make_ready(old);
  f.book.take({{"m", {version("1", 8)}}}, f.now);
  auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::ready);
  CHECK(all[1].state == model_state::loading);
  CHECK(all[1].workers[0].name == "worker-m-1"); // the other is there still
  f.make_ready(all[1]);
  all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::unloading);
  CHECK(all[1].state == model_state::ready);
  f.book.on_drained(0, all[0].revision, f.now);
  CHECK(f.only("m").revision == all[1].revision);
  // Its process is not gone: neither is its name.
  f.book.take({{"m", {version("1", 9)}}}, f.now);
  CHECK(f.all_of("m")[1].workers[0].name == "worker-m-2");
  f.let_go(old);
  f.book.take({{"m", {version("1", 10)}}}, f.now);
  CHECK(f.all_of("m").back().workers[0].name == "worker-m-0");
}

TEST_CASE("changed files that cannot be served leave what serves, and say so") {
  book_fixture f(model_control::poll);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  const auto old = f.only("m");
  f.make_ready(old);
  f.book.take({{"m", {version("1", 8)}}}, f.now);
  f.book.on_end(f.all_of("m")[1].workers[0].process, "SyntaxError", f.now);
  CHECK(f.only("m").revision == old.revision);
  CHECK(f.only("m").state == model_state::ready);
  CHECK(f.only("m").reason == "its files have changed, and cannot be served: SyntaxError");
  f.book.take({{"m", {version("1", 7)}}}, f.now); // put back
  CHECK(f.only("m").reason.empty());
}

TEST_CASE("a removed directory drains and goes at every gateway, or when its time is over") {
  book_fixture f(model_control::poll, {}, 2);
  f.book.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.make_ready(f.only("n"));
  f.book.take({}, f.now);
  CHECK(f.only("m").state == model_state::unloading);
  CHECK(f.only("m").workers.size() == 2);
  f.book.on_drained(0, f.only("m").revision, f.now);
  CHECK(f.only("m").state == model_state::unloading);
  f.book.on_drained(1, f.only("m").revision, f.now);
  CHECK(f.all_of("m").empty());
  f.now += 29s;
  f.book.tick(f.now);
  CHECK(f.only("n").state == model_state::unloading);
  f.now += 2s;
  f.book.tick(f.now);
  CHECK(f.all_of("n").empty());
}

TEST_CASE("a newer version takes over from the one before when it is ready") {
  book_fixture f(model_control::poll);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.book.take({{"m", {version("2", 8)}}}, f.now);
  auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::ready);
  f.make_ready(all[1]);
  all = f.all_of("m");
  CHECK(all[0].state == model_state::unloading);
  CHECK(all[1].version == "2");
}

TEST_CASE("several versions are served at once, each for itself") {
  book_fixture f(model_control::poll);
  f.book.take({{"m", {version("1", 7), version("2", 8)}}}, f.now);
  auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  f.make_ready(all[0]);
  f.book.on_end(all[1].workers[0].process, "no", f.now);
  all = f.all_of("m");
  CHECK(all[0].state == model_state::ready);
  CHECK(all[1].state == model_state::unavailable);
  f.book.take({{"m", {version("1", 7), version("2", 9)}}}, f.now); // the other one's files alone
  CHECK(f.all_of("m")[0].revision == all[0].revision);
}

TEST_CASE("explicit: what is not named at first is not loaded, and shown") {
  book_fixture f(model_control::clients, {"n"});
  f.book.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, f.now);
  CHECK(f.only("n").state == model_state::loading);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "not loaded");
  book_fixture all(model_control::clients, {"*"});
  all.book.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, all.now);
  CHECK(all.only("m").state == model_state::loading);
}

TEST_CASE("explicit: a load is answered when the model is ready") {
  book_fixture f(model_control::clients);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  f.book.load(f.gateway_id, 5, "m", f.now);
  CHECK(f.book.take_answers().empty());
  f.make_ready(f.only("m"));
  const auto all = f.book.take_answers();
  REQUIRE(all.size() == 1);
  CHECK(all[0].gateway == f.gateway_id);
  CHECK(all[0].what.request == 5);
  CHECK_FALSE(all[0].what.failure);
  f.book.load(f.gateway_id, 6, "m", f.now); // nothing has changed
  CHECK_FALSE(f.answer());
  CHECK(f.only("m").state == model_state::ready);
}

TEST_CASE("explicit: a load that fails says why, and the next one tries again") {
  book_fixture f(model_control::clients);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  f.book.load(f.gateway_id, 5, "m", f.now);
  const auto before = f.only("m");
  f.book.on_end(before.workers[0].process, "exit status 1: no weights", f.now);
  auto failure = f.answer();
  REQUIRE(failure);
  CHECK(failure->message == "failed to load 'm', version 1: exit status 1: no weights");
  f.book.load(f.gateway_id, 6, "m", f.now);
  CHECK(f.book.take_answers().empty());
  f.make_ready(f.all_of("m").back());
  CHECK_FALSE(f.answer());
  f.let_go(before);
  CHECK(f.only("m").state == model_state::ready);
}

TEST_CASE("explicit: what is not there cannot be loaded or unloaded") {
  book_fixture f(model_control::clients);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  // A name is looked up among those that a look at the directory found: none of it is a path.
  for (const auto* name : {"x", "", ".", "..", "../m", "./m", "m/", "m/1", "m/../m", "/etc", "M"}) {
    CAPTURE(name);
    f.book.load(f.gateway_id, 5, name, f.now);
    CHECK(f.answer()->code == errc::model_not_found);
    f.book.unload(f.gateway_id, 5, name, f.now);
    CHECK(f.answer()->code == errc::model_not_found);
  }
}

TEST_CASE("explicit: an unload is answered when no request is taken any more") {
  book_fixture f(model_control::clients, {"m"});
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.book.unload(f.gateway_id, 5, "m", f.now);
  CHECK_FALSE(f.answer());
  const auto m = f.only("m");
  CHECK(m.state == model_state::unloading);
  f.book.on_drained(0, m.revision, f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason == "unloaded");
  CHECK(f.only("m").workers.empty());
}

TEST_CASE("explicit: what is loaded again while it drains is another revision of its own") {
  book_fixture f(model_control::clients, {"m"});
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  const auto old = f.only("m");
  f.make_ready(old);
  f.book.unload(f.gateway_id, 5, "m", f.now);
  CHECK_FALSE(f.answer());
  f.book.load(f.gateway_id, 6, "m", f.now);
  f.book.on_drained(0, old.revision, f.now);
  CHECK(f.book.take_answers().empty());
  CHECK(f.only("m").state == model_state::loading);
  f.make_ready(f.only("m"));
  CHECK_FALSE(f.answer());
  CHECK(f.only("m").state == model_state::ready);
  CHECK(f.only("m").reason.empty());
  f.let_go(old);
  CHECK(f.only("m").revision > old.revision);
}

TEST_CASE("explicit: an unload ends a load that is under way") {
  book_fixture f(model_control::clients);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  f.book.load(f.gateway_id, 5, "m", f.now);
  f.book.unload(f.gateway_id, 6, "m", f.now);
  const auto all = f.book.take_answers();
  REQUIRE(all.size() == 2);
  CHECK(all[0].what.request == 5);
  CHECK(all[0].what.failure->code == errc::cancelled);
  CHECK_FALSE(all[1].what.failure);
}

TEST_CASE("explicit: changed files wait for the next load, which replaces the model") {
  book_fixture f(model_control::clients, {"m"});
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.book.take({{"m", {version("1", 8)}}}, f.now);
  CHECK(f.all_of("m").size() == 1);
  f.book.load(f.gateway_id, 5, "m", f.now);
  const auto all = f.all_of("m");
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == model_state::ready);
  f.make_ready(all[1]);
  CHECK_FALSE(f.answer());
  CHECK(f.all_of("m")[0].state == model_state::unloading);
}

TEST_CASE("who comes after a root takes up what it has left, and nothing is begun anew") {
  book_fixture f(model_control::clients, {"m"});
  f.book.take({{"m", {version("1", 7)}}, {"n", {version("1", 7)}}}, f.now);
  f.make_ready(f.only("m"));
  f.book.load(f.gateway_id, 5, "n", f.now);
  book_fixture next(model_control::clients, {"m"});
  next.book.restore(f.book.note(), next.now);
  next.book.take({{"m", {version("1", 8)}}, {"n", {version("1", 7)}}}, next.now);
  CHECK(next.only("m").revision == f.only("m").revision);
  CHECK(next.only("m").state == model_state::ready);
  CHECK(next.only("n").state == model_state::loading);
  CHECK(next.only("n").workers[0].process == f.only("n").workers[0].process);
}

TEST_CASE("who comes after a root lets those end that were leaving") {
  book_fixture f(model_control::poll);
  f.book.take({{"m", {version("1", 7)}}}, f.now);
  const auto m = f.only("m");
  f.make_ready(m);
  f.book.take({}, f.now);
  f.book.on_drained(0, m.revision, f.now);
  book_fixture next(model_control::poll);
  next.book.restore(f.book.note(), next.now);
  next.book.take({}, next.now);
  CHECK(next.only("m").state == model_state::unloading);
  next.book.on_drained(0, m.revision, next.now);
  CHECK(next.all_of("m").empty());
}

TEST_CASE("workers of nodes.toml stand in the book as they do in the file") {
  book_fixture f(model_control::none);
  const auto m = f.only("fixed");
  CHECK_FALSE(m.is_of_repository);
  CHECK(m.workers[0].name == "worker-fixed-0");
  CHECK(m.workers[0].process == worker_slots(f.config)[0].process);
  f.book.on_ready(m.workers[0].process, f.now);
  CHECK(f.only("fixed").state == model_state::ready);
  f.book.on_given_up(m.workers[0].process, "crash_loop", f.now);
  CHECK(f.only("fixed").state == model_state::unavailable);
  CHECK(f.only("fixed").workers.size() == 1); // shown as given up
}

TEST_CASE("a model that would need more workers than a cluster has is refused alone") {
  book_fixture f(model_control::poll);
  f.book.take({{"m", {version("1", 7, workers_of_cluster_max)}}, {"n", {version("1", 7)}}}, f.now);
  CHECK(f.only("m").state == model_state::unavailable);
  CHECK(f.only("m").reason.find("a cluster has at most 1024") != std::string::npos);
  CHECK(f.only("n").state == model_state::loading);
}

TEST_CASE("a name of load_models that nothing has is shown with its reason until it is there") {
  book_fixture f(model_control::clients, {"good", "god", "*"});
  f.book.take({{"good", {version("1", 7)}}}, f.now);
  CHECK(f.only("good").state == model_state::loading);
  const auto missing = f.only("god");
  CHECK(missing.state == model_state::unavailable);
  CHECK(missing.revision != 0); // `cluster status` shows those
  CHECK(missing.reason == "load_models names it, and the model repository has no such directory; "
                          "did you mean 'good'?");
  f.book.take({{"god", {version("1", 8)}}, {"good", {version("1", 7)}}}, f.now);
  CHECK(f.only("god").reason == "not loaded");
}

TEST_CASE("one that is not loaded says so, and why it cannot be") {
  book_fixture f(model_control::clients, {});
  f.book.take({{"bad", {broken("1", 1, "it is an ensemble")}}}, f.now);
  CHECK(f.only("bad").reason == "not loaded; it cannot be: it is an ensemble");
}

TEST_CASE("what is left out of a model is its reason while it is ready") {
  book_fixture f(model_control::none);
  auto v = version("1", 7);
  v.notes = {"a is left out: b", "c is left out: d"};
  f.book.take({{"m", {v}}}, f.now);
  CHECK(f.only("m").reason.empty());
  f.make_ready(f.only("m"));
  CHECK(f.only("m").state == model_state::ready);
  CHECK(f.only("m").reason == "a is left out: b; c is left out: d");
}
