// Loads and unloads on their way to the root and back, under CAF's testing scheduler.
#include "gateway/workers/repository_client.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::chrono_literals;

namespace {

constexpr process_id root{1};

struct testing_config : caf::actor_system_config {
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

struct repository_client_world {
  testing_config options;
  caf::actor_system system{options};
  caf::scheduler::test_coordinator& time =
      dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::vector<change_model> asked;
  std::uint64_t last = 0;
  repository_actor client;

  repository_client_world() {
    repository_client_config config;
    config.root = root;
    config.ask = [this](const change_model& m) { asked.push_back(m); };
    config.answer_max = 60s;
    client = spawn_repository_client(system, config);
  }
  ~repository_client_world() {
    caf::anon_send_exit(client, caf::exit_reason::user_shutdown);
    time.run();
  }
  template <class M>
  void deliver(M m) {
    caf::anon_send(client, std::move(m));
    time.run();
  }
  std::shared_ptr<stream> load(const std::string& model) {
    return order(model, model_order::load, std::nullopt);
  }
  // Its client does not wait for the answer.
  void keep(const std::string& model, std::int64_t milliseconds) {
    const auto out = order(model, model_order::keep, milliseconds);
    deliver(close_request{out->number()});
  }
  std::shared_ptr<stream> order(const std::string& model, model_order what,
                                std::optional<std::int64_t> keep_alive) {
    auto out = std::make_shared<stream>(++last, 1 << 20, nullptr);
    change_model change;
    change.model = model;
    change.what = what;
    change.keep_alive = keep_alive;
    deliver(open_change{out, change});
    return out;
  }
  void see_root(bool is_there) {
    if (!is_there)
      return deliver(actors::peer_down{root, {1}, "gone"});
    hello h;
    h.process = root;
    deliver(actors::peer_up{h});
  }
};

errc stream_failure(stream& of) {
  const auto e = of.next();
  REQUIRE(e);
  CHECK_FALSE(of.next());
  return std::get<failed>(*e).reason.code;
}

} // namespace

TEST_CASE("a load goes to the root, and its answer comes to the waiting stream") {
  repository_client_world w;
  auto a = w.load("a");
  auto b = w.load("b");
  REQUIRE(w.asked.size() == 2);
  CHECK(w.asked[1].model == "b");
  CHECK_FALSE(a->next());
  w.deliver(model_changed{w.asked[1].request, fail(errc::start_failed, "no weights")});
  CHECK_FALSE(a->next());
  const auto parsed = b->next();
  REQUIRE(parsed);
  CHECK(std::get<model_changed>(*parsed).failure->code == errc::start_failed);
  w.deliver(model_changed{w.asked[0].request, std::nullopt});
  CHECK_FALSE(std::get<model_changed>(*a->next()).failure);
}

TEST_CASE("a client that has left gets no answer") {
  repository_client_world w;
  auto a = w.load("a");
  w.deliver(close_request{a->number()});
  w.deliver(model_changed{a->number(), std::nullopt});
  CHECK_FALSE(a->next());
}

TEST_CASE("a lost root ends waiting operations; while it is away new ones are refused") {
  repository_client_world w;
  auto a = w.load("a");
  w.see_root(false);
  CHECK(stream_failure(*a) == errc::not_ready);
  auto b = w.load("b");
  CHECK(stream_failure(*b) == errc::not_ready);
  CHECK(w.asked.size() == 1);
  w.see_root(true);
  auto c = w.load("c");
  CHECK_FALSE(c->next());
  CHECK(w.asked.size() == 2);
}

TEST_CASE("the last keep of each model without an answer reaches a root that comes up") {
  repository_client_world w;
  w.keep("answered", 1);
  w.deliver(model_changed{w.asked.back().request, std::nullopt, "answered"});
  w.keep("lost", 2);
  w.see_root(false);
  w.keep("new", 3);
  w.keep("new", 4);
  w.load("refused");
  const auto before = w.asked.size();
  w.see_root(true);
  REQUIRE(w.asked.size() == before + 2);
  CHECK(w.asked[before].model == "lost");
  CHECK(w.asked[before + 1].model == "new");
  CHECK(w.asked[before + 1].keep_alive == 4);
  w.deliver(model_changed{w.asked[before].request, std::nullopt, "lost"});
  w.deliver(model_changed{w.asked[before + 1].request, std::nullopt, "new"});
  w.see_root(false);
  w.see_root(true);
  CHECK(w.asked.size() == before + 2);
}

TEST_CASE("a silent root is waited for with a timeout") {
  repository_client_world w;
  auto a = w.load("a");
  w.time.advance_time(59s);
  w.deliver(actors::tick{});
  CHECK_FALSE(a->next());
  w.time.advance_time(1s);
  w.deliver(actors::tick{});
  CHECK(stream_failure(*a) == errc::deadline_exceeded);
}
