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

// The agent between its shards' supervisor and the root. Callbacks come from the actors' thread and
// from the links' thread.
class shard_group {
public:
  explicit shard_group(agent_state& local) : local_(local), serving_(local.serving()) {}

  // Call it first. The callbacks of the result use this object, `self` and `launcher`.
  actors::supervisor_config config_of(process& self, child_launcher& launcher);
  // From now on the root's orders reach the supervisor.
  void obey(const actors::supervisor_actor& supervisor);
  void stop() { is_stopping_ = true; }
  bool has_failed() const { return has_failed_; } // whether one of its shards failed to stop

private:
  void give_up(const status& failed);
  void report_ended(const actors::child_spec& spec);
  void take(const actors::supervisor_actor& supervisor, generations&& order);
  void send_to_root(message&& m) {
    self_->links().post(process_ids::root, actors::well_known::supervisor, std::move(m));
  }

  agent_state& local_;
  process* self_ = nullptr;
  child_launcher* launcher_ = nullptr;
  std::atomic<bool> is_stopping_{false}, has_failed_{false};
  std::mutex serving_mutex_;
  std::set<std::uint32_t> serving_;
};

actors::supervisor_config shard_group::config_of(process& self, child_launcher& launcher) {
  self_ = &self;
  launcher_ = &launcher;
  actors::supervisor_config config;
  config.name = local_.name();
  config.children = local_.shards();
  launcher_->serve(config);
  launcher_->observe([this](const actors::child_exited& m) {
    if (!is_stopping_ || !m.has_failed)
      return;
    spdlog::error("{} while it was stopped: {}", m.name, m.how);
    has_failed_ = true;
  });
  config.changed = [this](const std::vector<status>& shards) {
    for (const auto& s : shards) // one message each: it waits for room on the route
      send_to_root(message(s));
  };
  config.escalate = [this](const status& failed) { give_up(failed); };
  config.retired = [this, here = config.retired](const actors::child_spec& spec) {
    here(spec);
    report_ended(spec);
  };
  config.stopped = [this] { self_->stop(); };
  return config;
}

// The root gives up new generations; without the serving shards this node is useless.
void shard_group::give_up(const status& failed) {
  {
    std::lock_guard lock(serving_mutex_);
    if (!serving_.contains(process_ids::generation_of(failed.process)))
      return;
  }
  self_->report(phase::failed, fmt::format("{}: {}", failed.name, failed.reason));
}

// The root frees the memory of a model that is unloaded once its shards have ended.
void shard_group::report_ended(const actors::child_spec& spec) {
  if (spec.role != role::shard)
    return;
  status ended;
  ended.process = spec.process;
  ended.role = role::shard;
  ended.name = spec.name;
  ended.phase = phase::stopped;
  send_to_root(message(ended));
}

void shard_group::obey(const actors::supervisor_actor& supervisor) {
  self_->links().publish(actors::well_known::supervisor,
                         [this, supervisor](const envelope&, message&& m) {
                           if (auto* s = std::get_if<status>(&m)) {
                             caf::anon_send(supervisor, std::move(*s));
                           } else if (const auto* d = std::get_if<drain>(&m)) {
                             stop();
                             caf::anon_send(supervisor, *d);
                           } else if (const auto* j = std::get_if<joined>(&m)) {
                             if (is_taken(local_.take(*j)))
                               send_to_root(std::move(m));
                           } else if (auto* g = std::get_if<generations>(&m)) {
                             take(supervisor, std::move(*g));
                           } else {
                             self_->links().count_unknown();
                           }
                         });
}

void shard_group::take(const actors::supervisor_actor& supervisor, generations&& order) {
  if (!is_taken(local_.take(order)))
    return;
  for (const auto& plan : local_.plans(order.pipeline))
    launcher_->know(plan);
  std::unique_lock lock(serving_mutex_);
  const bool is_other = std::exchange(serving_, local_.serving()) != local_.serving();
  lock.unlock();
  if (is_other)
    self_->report(phase::ready); // replaces the failure of earlier shards
  caf::anon_send(supervisor, actors::wanted_children{local_.shards()});
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
  shard_group shards(local);     // as well
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
  child_watch watch;
  incarnation_clock incarnations(cluster.dir, agent.name, wall_micros);
  child_launcher launcher(watch, all, arguments.config, incarnations);

  auto supervisor =
      self.own_typed(self.system().spawn(actors::supervisor, shards.config_of(self, launcher)));
  launcher.reports_to(supervisor);
  shards.obey(supervisor);
  self.forward_peer_events(supervisor);
  // Reports every shard to a root that (re)connects.
  self.on_tick([supervisor] { caf::anon_send(supervisor, actors::tick{}); });
  self.begin();
  self.report(phase::ready);
  self.wait();
  shards.stop();
  caf::anon_send(supervisor, drain{});
  self.wait_stopped();
  return shards.has_failed() ? exit_process_failed : 0;
}

} // namespace baton::cluster
