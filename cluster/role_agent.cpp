// The node agent: one per machine. Supervises that machine's shards and passes on how they stand;
// no data path: they go on without it, and the next agent adopts them.
#include "actors/supervisor.hpp"
#include "cluster/child_launch.hpp"
#include "cluster/process.hpp"
#include "cluster/proxy.hpp"
#include "cluster/roles.hpp"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <csignal>

namespace baton::cluster {
namespace {

void add_shards(std::vector<actors::child_spec>& specs, const cluster_plan& plan,
                const agent_plan& agent) {
  for (const auto& s : plan.shards)
    if (s.on == agent.on)
      specs.push_back({s.name, s.node, role::shard, actors::pipeline_intensity});
}

std::vector<actors::child_spec> shards_of(const cluster_context& context, const agent_plan& agent) {
  std::vector<actors::child_spec> specs;
  add_shards(specs, context.plan, agent);
  if (context.coming)
    add_shards(specs, *context.coming, agent);
  return specs;
}

// The root's word: its generations are the ones whose shards there are.
actors::wanted_children wanted_by(const generations& said, const machines& known,
                                  const cluster_context& context, const agent_plan& agent,
                                  child_launcher& launcher) {
  actors::wanted_children wanted;
  const auto add = [&](const generation& g) {
    const auto plan = make_plan(context.config, context.model, known, g);
    ENSURE(plan.has_value(), "the root has made this plan: {}", plan.error().message);
    launcher.know(*plan);
    add_shards(wanted.all, *plan, agent);
  };
  add(said.serving);
  if (said.coming)
    add(*said.coming);
  return wanted;
}

// What the root has said to this machine: whoever starts here reads it. On the root's own machine
// it has noted that itself, before it said so.
class said_here {
public:
  said_here(const cluster_context& context, const agent_plan& agent)
      : context_(context), is_noting_(agent.machine != root_machine), note_(context.made_with) {}

  void take(const joined& m) {
    auto known = machines_from_text(m.facts);
    ENSURE(known.has_value(), "the root says what it has noted");
    note_.known = std::move(*known);
    if (is_noting_)
      judge(note_keys(context_.dir, machine_keys_from(m.keys)));
  }
  void take(const generations& m) {
    note_.generations = noted_elsewhere(m);
    if (is_noting_)
      judge(note_plan(context_.dir, note_));
  }
  const machines& known() const { return note_.known; }

private:
  static void judge(const result<void>& ok) {
    if (!ok)
      spdlog::error("{}", ok.error().message); // those that come cannot start, and are given up
  }

  const cluster_context& context_;
  const bool is_noting_;
  plan_note note_;
};

// Shards of generations that ended while their agent was away: nobody else would end them.
void end_left_over(const cluster_context& context) {
  for (const auto& note : context.dir.alive()) {
    const auto is_it = [&](const cluster_plan& plan) {
      return std::any_of(plan.shards.begin(), plan.shards.end(),
                         [&](const shard_plan& s) { return s.name == note.name; });
    };
    if (!note.name.starts_with("shard-") || is_it(context.plan) ||
        (context.coming && is_it(*context.coming)))
      continue;
    spdlog::warn("{} (pid {}) is of a generation that is over: ended", note.name, note.pid);
    signal_noted(note, SIGTERM);
  }
}

} // namespace

int run_agent(const cluster_context& context, const role_arguments& arguments) {
  const auto& agent = context.plan.agents.at(arguments.index);
  said_here said(context, agent); // of the links' thread, which ends with `started`
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
  end_left_over(context);
  child_watch watch;
  child_launcher launcher(watch, context, arguments.config);

  actors::supervisor_config config;
  config.children = shards_of(context, agent);
  launcher.serve(config);
  config.changed = [&self](const std::vector<status>& all) {
    for (const auto& s : all) // once: it waits for room on the road
      self.links().post(place::root, actors::well_known::supervisor, message(s));
  };
  // The root gives up those that come; without those that serve, this node is of no use.
  std::atomic<std::uint32_t> serving = context.plan.generation;
  config.escalate = [&](const status& failed) {
    if (place::generation_of(failed.node) != serving)
      return;
    self.report(phase::failed, fmt::format("{}: {}", failed.name, failed.reason));
  };
  config.stopped = [&self] { self.stop(); };
  auto supervisor = self.own_typed(self.system().spawn(actors::supervisor, config));
  launcher.reports_to(supervisor);
  self.links().publish(
      actors::well_known::supervisor, [&, supervisor](const envelope&, message&& m) {
        if (auto* s = std::get_if<status>(&m)) {
          caf::anon_send(supervisor, std::move(*s));
        } else if (const auto* d = std::get_if<drain>(&m)) {
          caf::anon_send(supervisor, *d);
        } else if (const auto* j = std::get_if<joined>(&m)) {
          said.take(*j);
        } else if (const auto* g = std::get_if<generations>(&m)) {
          if (serving.exchange(g->serving.number) != g->serving.number)
            self.report(phase::ready); // whatever became of those before
          said.take(*g);
          caf::anon_send(supervisor, wanted_by(*g, said.known(), context, agent, launcher));
        } else {
          self.links().count_unknown();
        }
      });
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
