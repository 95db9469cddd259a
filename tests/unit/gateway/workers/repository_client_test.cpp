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
  void tell(M m) {
    caf::anon_send(client, std::move(m));
    time.run();
  }
  std::shared_ptr<stream> load(const std::string& model) {
    auto out = std::make_shared<stream>(++last, 1 << 20, nullptr);
    change_model order;
    order.model = model;
    tell(open_change{out, order});
    return out;
  }
  void see_root(bool is_there) {
    if (!is_there)
      return tell(actors::peer_down{root, {1}, "gone"});
    hello h;
    h.process = root;
    tell(actors::peer_up{h});
  }
};

errc stream_failure(stream& of) {
  const auto e = of.next();
  REQUIRE(e);
  CHECK_FALSE(of.next());
  return std::get<failed>(*e).reason.code;
}

} // namespace

TEST_CASE("a load is asked of the root, and its answer comes to the stream that waits") {
  repository_client_world w;
  auto a = w.load("a");
  auto b = w.load("b");
  REQUIRE(w.asked.size() == 2);
  CHECK(w.asked[1].model == "b");
  CHECK_FALSE(a->next());
  w.tell(model_changed{w.asked[1].request, fail(errc::start_failed, "no weights")});
  CHECK_FALSE(a->next());
  const auto told = b->next();
  REQUIRE(told);
  CHECK(std::get<model_changed>(*told).failure->code == errc::start_failed);
  w.tell(model_changed{w.asked[0].request, std::nullopt});
  CHECK_FALSE(std::get<model_changed>(*a->next()).failure);
}

TEST_CASE("who has left hears nothing") {
  repository_client_world w;
  auto a = w.load("a");
  w.tell(close_request{a->number()});
  w.tell(model_changed{a->number(), std::nullopt});
  CHECK_FALSE(a->next());
}

TEST_CASE("a root that is lost ends what waits for it; while it is away nothing is asked") {
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

TEST_CASE("a root that says nothing is not waited for without end") {
  repository_client_world w;
  auto a = w.load("a");
  w.time.advance_time(59s);
  w.tell(actors::tick{});
  CHECK_FALSE(a->next());
  w.time.advance_time(1s);
  w.tell(actors::tick{});
  CHECK(stream_failure(*a) == errc::deadline_exceeded);
}
