// The node agent, one per machine. Supervises that machine's shards and forwards their status. It
// is not on the data path: shards run on without it, and the next agent adopts them.
#include "actors/supervision/supervisor.hpp"
#include "cluster/bus/proxy.hpp"
#include "cluster/roles/agent/agent_state.hpp"
#include "cluster/roles/agent/child_launch.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <set>

namespace baton::cluster {
namespace {

// Ends shards whose generation ended while their agent was away; no other process would.
void end_left_over(const cluster_contexts& all) {
  for (const auto& record : all.base.dir.alive()) {
    const auto has_it = [&](const cluster_plan& plan) {
      return std::any_of(plan.shards.begin(), plan.shards.end(),
                         [&](const shard_plan& s) { return s.name == record.name; });
    };
    const bool is_wanted = std::any_of(all.begin(), all.end(), [&](const cluster_context& c) {
      return has_it(c.plan) || (c.coming && has_it(*c.coming));
    });
    if (!record.name.starts_with("shard-") || is_wanted)
      continue;
    spdlog::warn("{} (pid {}) is of a generation that is over: ended", record.name, record.pid);
    signal_recorded(record, SIGTERM);
  }
}

// A broken order is dropped: the shards that run go on.
bool is_taken(const result<bool>& took) {
  if (!took)
    spdlog::error("an order of the root is dropped: {}", took.error().message);
  return took && *took;
}

} // namespace

int run_agent(const cluster_contexts& all, const role_arguments& arguments) {
  const auto& cluster = all.base;
  const auto agents = agents_of(cluster.config);
  const auto own = std::find_if(agents.begin(), agents.end(), [&](const agent_plan& a) {
    return a.process == process_ids::agent(arguments.index);
  });
  if (own == agents.end()) {
    spdlog::error("this node was removed from the cluster");
    return exit_permanent;
  }
  const auto& agent = *own;
  agent_state local(all, agent); // used by the links' thread, which `started` joins
  auto started = process::start({.process = agent.process,
                                 .incarnation = arguments.incarnation,
                                 .as = role::agent,
                                 .name = agent.name,
                                 .endpoint = cluster.where.listen(agent.listens_as),
                                 .supervisor = process_ids::root,
                                 .supervisor_endpoint = cluster.where.find(root_name)},
                                cluster.where, /*actor_threads=*/1);
  if (!started) {
    spdlog::error("{}", started.error().message);
    return exit_status_of_listening(started.error().code);
  }
  auto& self = **started;
  outlive_parent(cluster.dir, agent.name, arguments.incarnation);
  // When a shard dies, its forked copy is reparented to this process.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  end_left_over(all);
  std::atomic<bool> is_stopping{false};
  std::atomic<bool> has_failed{false}; // whether one of its shards failed to stop
  child_watch watch;
  incarnation_clock incarnations(cluster.dir, agent.name, wall_micros);
  child_launcher launcher(watch, all, arguments.config, incarnations);

  actors::supervisor_config config;
  config.name = agent.name;
  config.children = local.shards();
  launcher.serve(config);
  launcher.observe([&](const actors::child_exited& m) {
    if (!is_stopping || !m.has_failed)
      return;
    spdlog::error("{} while it was stopped: {}", m.name, m.how);
    has_failed = true;
  });
  config.changed = [&self](const std::vector<status>& shards) {
    for (const auto& s : shards) // one message each: it waits for room on the route
      self.links().post(process_ids::root, actors::well_known::supervisor, message(s));
  };
  // The root gives up new generations; without the serving shards this node is useless.
  std::mutex serving_mutex;
  auto serving = local.serving();
  config.escalate = [&](const status& failed) {
    {
      std::lock_guard lock(serving_mutex);
      if (!serving.contains(process_ids::generation_of(failed.process)))
        return;
    }
    self.report(phase::failed, fmt::format("{}: {}", failed.name, failed.reason));
  };
  // The root frees the memory of a model that is unloaded once its shards have ended.
  config.retired = [&self, here = config.retired](const actors::child_spec& spec) {
    here(spec);
    if (spec.role != role::shard)
      return;
    status ended;
    ended.process = spec.process;
    ended.role = role::shard;
    ended.name = spec.name;
    ended.phase = phase::stopped;
    self.links().post(process_ids::root, actors::well_known::supervisor, message(ended));
  };
  config.stopped = [&self] { self.stop(); };
  auto supervisor = self.own_typed(self.system().spawn(actors::supervisor, config));
  launcher.reports_to(supervisor);
  self.links().publish(
      actors::well_known::supervisor, [&, supervisor](const envelope&, message&& m) {
        if (auto* s = std::get_if<status>(&m)) {
          caf::anon_send(supervisor, std::move(*s));
        } else if (const auto* d = std::get_if<drain>(&m)) {
          is_stopping = true;
          caf::anon_send(supervisor, *d);
        } else if (const auto* j = std::get_if<joined>(&m)) {
          if (is_taken(local.take(*j)))
            self.links().post(process_ids::root, actors::well_known::supervisor, std::move(m));
        } else if (const auto* g = std::get_if<generations>(&m)) {
          if (!is_taken(local.take(*g)))
            return;
          for (const auto& plan : local.plans(g->pipeline))
            launcher.know(plan);
          std::unique_lock lock(serving_mutex);
          const bool is_other = std::exchange(serving, local.serving()) != local.serving();
          lock.unlock();
          if (is_other)
            self.report(phase::ready); // replaces the failure of earlier shards
          caf::anon_send(supervisor, actors::wanted_children{local.shards()});
        } else {
          self.links().count_unknown();
        }
      });
  self.forward_peer_events(supervisor);
  // Reports every shard to a root that (re)connects.
  self.on_tick([supervisor] { caf::anon_send(supervisor, actors::tick{}); });
  self.begin();
  self.report(phase::ready);
  self.wait();
  is_stopping = true;
  caf::anon_send(supervisor, drain{});
  self.wait_stopped();
  return has_failed ? exit_process_failed : 0;
}

} // namespace baton::cluster
