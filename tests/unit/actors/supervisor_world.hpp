// The supervisor actor on CAF's testing scheduler. No process, no sleep.
#pragma once

#include "actors/supervision/supervisor.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

#include <algorithm>

namespace baton::actors::supervised {

using namespace std::chrono_literals;

// A supervisor with a log in place of processes, and a number as its clock.
struct supervisor_world {
  caf::actor_system_config caf_config;
  std::unique_ptr<caf::actor_system> system;
  time_point now{};
  std::vector<std::string> log;
  std::vector<status> reported; // the last time
  std::vector<status> last;     // of each child
  std::vector<incarnation_id> incarnations;
  bool refuse_start = false;
  bool is_starved = false; // for any child
  restart_strategy strategy = restart_strategy::one_for_one;
  std::map<std::string, left_child> left; // by another supervisor
  supervisor_actor actor;

  supervisor_world() {
    caf_config.set("scheduler.policy", caf::atom("testing"));
    system = std::make_unique<caf::actor_system>(caf_config);
  }
  ~supervisor_world() {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
    run();
    actor = nullptr;
    system.reset();
  }
  void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler()).run(); }

  void start(std::vector<child_spec> children) {
    supervisor_config c;
    c.name = "root";
    c.children = std::move(children);
    c.strategy = strategy;
    c.adopt = [this](const child_spec& s) {
      const auto it = left.find(s.name);
      return it == left.end() ? std::nullopt : std::optional(it->second);
    };
    c.start = [this](const child_spec& s, incarnation_id e) -> result<std::int32_t> {
      if (refuse_start)
        return fail(errc::io_failed, "no fork today");
      log.push_back("start " + s.name);
      incarnations.push_back(e);
      return static_cast<std::int32_t>(100 + incarnations.size());
    };
    c.stop = [this](const child_spec& s, std::int32_t, bool force) {
      log.push_back((force ? "kill " : "stop ") + s.name);
    };
    c.changed = [this](const std::vector<status>& changed) {
      reported = changed;
      for (const auto& s : changed) {
        const auto is_it = [&](const status& l) { return l.process == s.process; };
        const auto known = std::find_if(last.begin(), last.end(), is_it);
        if (known == last.end())
          last.push_back(s);
        else
          *known = s;
      }
    };
    c.escalate = [this](const status& s) { log.push_back("escalate " + s.name); };
    c.stopped = [this] { log.push_back("stopped"); };
    c.retired = [this](const child_spec& s) { log.push_back("retired " + s.name); };
    c.abandon = [this](const child_spec& s) {
      log.push_back("abandon " + s.name);
      return s.role == role::shard;
    };
    c.is_starved = [this](std::int32_t) { return is_starved; };
    c.now = [this] { return now; };
    c.next_incarnation = [n = std::uint64_t{0}](process_id) mutable { return incarnation_id{++n}; };
    actor = system->spawn(actors::supervisor, c);
    run();
  }
  template <class M>
  void send(M m) {
    caf::anon_send(actor, std::move(m));
    run();
  }
  std::vector<std::string> take() { return std::exchange(log, {}); }
};

using lines = std::vector<std::string>;
inline const child_spec a{"a", process_id{10}, role::head, {2, 10s}};
inline const child_spec b{"b", process_id{11}, role::gateway, {2, 10s}};
inline const child_spec c{"c", process_id{12}, role::shard, {2, 10s}};

} // namespace baton::actors::supervised
