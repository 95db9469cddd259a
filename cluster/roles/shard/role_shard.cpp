// A shard: one device, one pipeline stage or a rank of one. Loads its layers, then announces itself
// to the head.
#include "actors/stage.hpp"
#include "cluster/bus/proxies.hpp"
#include "cluster/bus/starvation.hpp"
#include "cluster/plan/model_identity.hpp"
#include "cluster/process/child.hpp"
#include "cluster/process/standby.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "cluster/roles/shard/shard_engine.hpp"
#include "cluster/roles/shard/watched_engine.hpp"
#include "runtime/collective/bus_group.hpp"
#include "runtime/collective/shared_group.hpp"
#include "runtime/model/open/open_model.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

namespace baton::cluster {
namespace {

stage_ready announcement_of(const shard_plan& plan, const cluster_plan& all,
                            incarnation_id incarnation, const engine::capacity& c) {
  return {.process = plan.process,
          .incarnation = incarnation,
          .stage = plan.stage,
          .stages = all.stages,
          .blocks = c.blocks,
          .block_positions = c.block_positions,
          .model_hash = c.model_hash,
          .device = c.device,
          .kv_incarnation = c.kv_incarnation,
          .swap_blocks = c.swap_blocks,
          .rank = plan.rank,
          .width = all.width,
          .generation = all.generation,
          .pools = c.pools,
          .state_slots = c.state_slots};
}

struct membership {
  std::shared_ptr<collective::group> group;      // null if the stage is a single shard
  std::shared_ptr<collective::collective> ranks; // likewise
};

// Delivers other ranks' data to the inbox from the bus's threads, because the engine blocks the
// stage actor's thread while it waits for them.
std::shared_ptr<collective::bus_group> meet_over_bus(process& self, const cluster_plan& all,
                                                     const shard_plan& plan) {
  const auto members = stage_of(all, plan);
  std::vector<process_id> nodes; // [rank]
  for (const auto& s : members)
    nodes.push_back(s.process);
  auto group = std::make_shared<collective::bus_group>(
      plan.rank, all.width, [&self, nodes](std::uint32_t rank, group_values&& m) {
        self.links().post(nodes[rank], actors::well_known::group, std::move(m));
      });
  self.links().publish(
      actors::well_known::group, [&self, group, nodes](const envelope& e, message&& m) {
        auto* values = std::get_if<group_values>(&m);
        if (values && values->rank < nodes.size() && nodes[values->rank] == e.source)
          group->inbox().put(std::move(*values));
        else
          self.links().count_unknown();
      });
  const auto note = [group, nodes](process_id process, bool is_up) {
    const auto at = std::find(nodes.begin(), nodes.end(), process);
    if (at != nodes.end())
      group->inbox().set_up(static_cast<std::uint32_t>(at - nodes.begin()), is_up);
  };
  self.on_peer([note](const hello& h) { note(h.process, true); },
               [note](process_id n, incarnation_id, const std::string&) { note(n, false); });
  return group;
}

// Errors: as shared_group::join; io_failed (its agent provided no memory for the group).
result<membership> join_group(process& self, const cluster_plan& all, const shard_plan& plan,
                              std::optional<int> file) {
  if (all.width == 1)
    return membership{};
  if (meets_over_bus(all, plan)) {
    auto group = meet_over_bus(self, all, plan);
    return membership{group, group->ranks()};
  }
  if (!file)
    return fail(errc::io_failed, "rank {} of {} has no memory shared with the other ranks",
                plan.rank, all.width);
  auto group = collective::shared_group::join(*file, plan.rank, all.width);
  if (!group)
    return group.error();
  return membership{*group, (*group)->ranks()};
}

// Detects an engine that hangs while its process still answers; only a restart helps. The KV is not
// trusted, as after a crash. An engine that waits for CPU time does not hang, and a restarted one
// would wait as well.
class hang_watch {
public:
  explicit hang_watch(std::shared_ptr<const actors::step_watch> steps) : steps_(std::move(steps)) {}

  // Call it from one thread, a few times within look_back.
  void look() {
    const auto now = std::chrono::steady_clock::now();
    if (!steps_->overdue(now + look_back)) {
      since_.reset();
      return;
    }
    if (!since_) {
      since_ = looked_ = now;
      static_cast<void>(is_starved(now)); // starts the measurement
      return;
    }
    const auto late = steps_->overdue(now);
    if (!late || now - looked_ < look_back)
      return;
    looked_ = now;
    if (is_starved(now) && now - *since_ < starved_max) {
      spdlog::warn("a step has run for {} ms: it waits for a processor", late->count());
      return;
    }
    spdlog::critical("a step has run for {} ms: the engine hangs, the process ends", late->count());
    spdlog::shutdown();
    _exit(exit_software);
  }

private:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds look_back{300};
  static constexpr std::chrono::seconds starved_max{10};

  bool is_starved(time_point now) { return starved_.look(getpid(), now, gettid()); }

  std::shared_ptr<const actors::step_watch> steps_;
  starvation_watch starved_;
  std::optional<time_point> since_; // when the step became nearly overdue
  time_point looked_;
};

// Returns in the first process at once, and in its copy when that is the next incarnation.
void wait_as_copy(int copies, role_arguments& arguments) {
  const auto orders = fork_standby(copies);
  if (!orders)
    return;
  arguments.incarnation = orders->incarnation;
  arguments.kv_file = orders->file < 0 ? std::nullopt : std::optional(orders->file);
}

// A stage without its engine: its place, and whom it talks to.
actors::stage_config stage_of(process& self, const cluster_context& context,
                              const cluster_plan& all, const shard_plan& plan) {
  actors::stage_config config;
  config.stage = plan.stage;
  config.stages = all.stages;
  config.rank = plan.rank;
  config.width = all.width;
  config.head = process_ids::head(context.pipeline());
  config.scheduler = make_proxy<actors::scheduler_actor>(self.system(), self.links(), config.head,
                                                         actors::well_known::scheduler);
  config.peers.stage =
      proxies<actors::stage_actor>(self.system(), self.links(), actors::well_known::stage);
  config.connect = [&self](const stage_address& other) {
    if (auto linked = self.links().connect(other.process, other.endpoint); !linked)
      spdlog::error("cannot connect to another shard: {}", linked.error().message);
  };
  config.now_micros = now_micros;
  return config;
}

} // namespace

int run_shard(const cluster_context& context, const role_arguments& first,
              const engine_wrapper& wrap) {
  auto arguments = first;
  const auto refused = [](const error& why, int status = exit_permanent) {
    spdlog::error("{}", why.message);
    return status;
  };
  const auto* of = context.plan_of(arguments.generation);
  if (of == nullptr) { // its agent will be informed
    spdlog::error("generation {} of this cluster's shards is over", arguments.generation);
    return exit_failed;
  }
  const auto& all = *of;
  const auto& plan = all.shards.at(arguments.index);
  auto file = model::open_model(context.config.model.path);
  if (!file)
    return refused(file.error());
  // Load the weights first: a copy that has them waits to be the next incarnation.
  auto made = shard_engine::begin(context, all, plan, **file);
  if (!made)
    return refused(made.error());
  if (auto ok = check_identity(**file, context.record().model_identity);
      !ok) // written while it was read
    return refused(ok.error());
  if (arguments.copies && made->may_fork_standby())
    wait_as_copy(*arguments.copies, arguments);
  const auto agents = agents_of(context.config);
  const auto* agent = agent_on(agents, plan.on);
  if (agent == nullptr)
    return refused(fail(errc::bad_config, "the configuration has no node of {}", plan.name));
  auto started = process::start({.process = plan.process,
                                 .incarnation = arguments.incarnation,
                                 .as = role::shard,
                                 .name = plan.name,
                                 .endpoint = context.where.listen(plan.name, arguments.incarnation),
                                 .supervisor = agent->process,
                                 .supervisor_endpoint = context.where.find(agent->listens_as)},
                                context.where, /*actor_threads=*/1);
  if (!started)
    return refused(started.error(), exit_failed);
  auto& self = **started;
  outlive_parent(context.dir, plan.name, arguments.incarnation);
  const auto group = join_group(self, all, plan, arguments.group_file);
  if (!group)
    return refused(group.error());
  if (auto ok = made->finish(**file, arguments.kv_file, group->ranks); !ok)
    return refused(ok.error());
  auto computes = wrap ? wrap(made->engine()) : made->engine();
  const auto watch = std::make_shared<actors::step_watch>(all.width > 1 ? actors::limits_in_group()
                                                                        : actors::step_limits{});
  const auto engine = std::make_shared<watched_engine>(std::move(computes), watch);
  auto config = stage_of(self, context, all, plan);
  config.announcement = announcement_of(plan, all, arguments.incarnation, engine->limits());
  config.group = group->group;
  config.engine = engine;
  config.take_over = made->take_over();
  // The stage has its own thread: a step takes milliseconds, and would delay other actors.
  auto stage = self.own_typed(self.system().spawn<caf::detached>(actors::stage, config));
  deliver_to(self.links(), actors::well_known::stage, stage);
  self.forward_peer_events(stage);
  self.on_tick([hangs = std::make_shared<hang_watch>(watch)] { hangs->look(); });
  self.begin();
  if (auto linked = self.links().connect(config.head, context.where.find(name_of_head(context)));
      !linked)
    spdlog::error("cannot connect to the head: {}", linked.error().message);
  self.report(phase::ready, engine->limits().device);
  self.wait();
  return 0;
}

} // namespace baton::cluster
