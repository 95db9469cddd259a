// A pool of a worker model under CAF's testing scheduler: its messages to workers and root, and the
// events of streams.
#pragma once

#include "gateway/tracing/tracer.hpp"
#include "gateway/workers/worker_pool.hpp"
#include "tests/unit/workers/worker_lives.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

#include <algorithm>

namespace baton::gateway::test {

using namespace std::chrono_literals;

using tests::first;
using tests::first_again;

struct testing_config : caf::actor_system_config {
  testing_config() { set("scheduler.policy", caf::atom("testing")); }
};

struct pool_world {
  testing_config options;
  caf::actor_system system{options};
  caf::scheduler::test_coordinator& time =
      dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::shared_ptr<gateway_state> facts = std::make_shared<gateway_state>(gateway_config{});
  std::vector<std::pair<worker_incarnation, message>> sent;
  std::vector<status> reported;
  std::shared_ptr<worker_load> load;
  int drained = 0;
  worker_pool_actor pool;

  explicit pool_world(schedule::worker_limits limits = {}) {
    worker_pool_config config;
    config.limits = limits;
    config.processes = {{first.process, "worker-m-0"}};
    config.facts = facts;
    load = config.load;
    config.send = [this](worker_incarnation to, message m) { sent.emplace_back(to, std::move(m)); };
    config.report = [this](const status& s) { reported.push_back(s); };
    config.drained = [this] { ++drained; };
    pool = spawn_worker_pool(system, config);
  }
  ~pool_world() {
    caf::anon_send_exit(pool, caf::exit_reason::user_shutdown);
    time.run();
  }
  template <class M>
  void deliver(M m) {
    caf::anon_send(pool, std::move(m));
    time.run();
  }
  void pass(std::chrono::milliseconds wait) {
    time.advance_time(wait);
    time.run();
  }
  // `wake`: of its API server.
  std::shared_ptr<stream> ask(std::size_t buffer_max = 1 << 20, std::string parameters = "",
                              std::function<void()> wake = nullptr) {
    REQUIRE(facts->enter());
    auto out = std::make_shared<stream>(facts->next_number(), buffer_max, std::move(wake));
    infer request;
    request.body = "question";
    request.parameters = std::move(parameters);
    deliver(open_infer{out, request});
    return out;
  }
  void piece(const stream& of, std::uint32_t index, bool is_last, std::string body = "piece",
             worker_incarnation worker = first) {
    inferred p;
    p.request = of.number();
    p.index = index;
    p.is_last = is_last;
    p.body = std::move(body);
    deliver(worker_replied{worker, std::move(p)});
  }
  // Reports a failure of its handler.
  void failure(const stream& of, std::string why) {
    inferred p;
    p.request = of.number();
    p.is_last = true;
    p.failure = fail(errc::handler_failed, "{}", std::move(why));
    deliver(worker_replied{first, std::move(p)});
  }
  // The requests of the batches sent since the last call.
  std::vector<std::vector<std::uint64_t>> batches() {
    std::vector<std::vector<std::uint64_t>> all;
    for (const auto& [to, m] : std::exchange(sent, {}))
      if (const auto* b = std::get_if<infer_batch>(&m)) {
        auto& numbers = all.emplace_back();
        for (const auto& item : b->items) {
          CHECK(item.body == "question");
          numbers.push_back(item.request);
        }
      }
    return all;
  }
  std::vector<phase> reported_phases() {
    std::vector<phase> all;
    for (const auto& s : std::exchange(reported, {})) {
      CHECK(s.name == "worker-m-0");
      all.push_back(s.phase);
    }
    return all;
  }
};

inline std::string body_of(stream& of) {
  const auto e = of.next();
  REQUIRE(e);
  return std::get<inferred>(*e).body;
}

inline errc failure_of(stream& of) {
  const auto e = of.next();
  REQUIRE(e);
  CHECK_FALSE(of.next());
  if (const auto* no = std::get_if<rejected>(&*e))
    return no->reason.code;
  return std::get<failed>(*e).reason.code;
}

using numbers = std::vector<std::vector<std::uint64_t>>;

} // namespace baton::gateway::test
