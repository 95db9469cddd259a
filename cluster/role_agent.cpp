// The node agent: one per machine. Supervises that machine's shards and passes on how they stand;
// no data path: they go on without it, and the next agent adopts them.
#include "actors/supervisor.hpp"
#include "cluster/child_launch.hpp"
#include "cluster/process.hpp"
#include "cluster/proxy.hpp"
#include "cluster/roles.hpp"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

namespace baton::cluster {
namespace {

std::vector<actors::child_spec> shards_of(const cluster_context& context, const agent_plan& agent) {
  std::vector<actors::child_spec> specs;
  for (const auto& s : context.plan.shards)
    if (s.on == agent.on)
      specs.push_back({s.name, s.node, role::shard, actors::pipeline_intensity});
  return specs;
}

} // namespace

int run_agent(const cluster_context& context, const role_arguments& arguments) {
  const auto& agent = context.plan.agents.at(arguments.index);
  auto started = process::start({agent.node, arguments.epoch, role::agent, agent.name,
                                 context.where.listen(name_of(agent)), place::root,
                                 context.where.find(root_name)},
                                context.where, /*actor_threads=*/1);
  if (!started) {
    spdlog::error("{}", started.error().message);
    return 1;
  }
  auto& self = **started;
  outlive_parent(context.dir, agent.name, arguments.epoch);
  // A shard's copy becomes ours when the shard that made it dies.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  child_watch watch;
  child_launcher launcher(watch, context, arguments.config);

  actors::supervisor_config config;
  config.children = shards_of(context, agent);
  launcher.serve(config);
  config.changed = [&self](const std::vector<status>& all) {
    for (const auto& s : all) // once: it waits for room on the road
      self.links().post(place::root, actors::well_known::supervisor, message(s));
  };
  config.escalate = [&self](const status& failed) {
    self.report(phase::failed, fmt::format("{}: {}", failed.name, failed.reason));
  };
  config.stopped = [&self] { self.stop(); };
  auto supervisor = self.own_typed(self.system().spawn(actors::supervisor, config));
  launcher.reports_to(supervisor);
  deliver_to(self.links(), actors::well_known::supervisor, supervisor);
  self.tell_peers(supervisor);
  // A root that comes (back) hears how every shard stands.
  self.on_tick([supervisor] { caf::anon_send(supervisor, actors::tick{}); });
  self.begin();
  self.report(phase::ready);
  self.wait();
  caf::anon_send(supervisor, drain{});
  self.wait();
  return 0;
}

} // namespace baton::cluster
