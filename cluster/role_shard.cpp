// A shard: one device, one pipeline stage. Loads its layers, then announces itself to the head.
#include "actors/stage.hpp"
#include "cluster/process.hpp"
#include "cluster/proxies.hpp"
#include "cluster/roles.hpp"
#include "runtime/cpu/engine_cpu.hpp"

#include <spdlog/spdlog.h>

namespace baton::cluster {
namespace {

result<std::shared_ptr<engine::engine>>
load_engine(const cluster_context& context, const shard_plan& plan, std::optional<int> kv_file) {
  auto file = model::open_model(context.config.model.path);
  if (!file)
    return file.error();
  cpu::config settings;
  settings.threads = plan.threads;
  settings.cpus.assign(plan.cores.begin(), plan.cores.end());
  settings.kv_blocks = context.plan.blocks;
  settings.kv_cache_dtype = context.config.model.kv_cache_dtype;
  settings.kv_file = kv_file;
  settings.swap_blocks = context.plan.swap_blocks;
  settings.swap_directory = context.dir.path();
  settings.rows_max = context.config.model.max_num_batched_tokens;
  settings.context_max = context.plan.max_model_len;
  settings.activation_bits = context.config.model.activation_bits;
  auto loaded = cpu::engine_cpu::load(**file, context.model, plan.layers, settings);
  if (!loaded)
    return loaded.error();
  return std::shared_ptr<engine::engine>(std::move(*loaded));
}

stage_ready announcement_of(const shard_plan& plan, std::uint32_t stages, epoch_id life,
                            const engine::capacity& c) {
  return {plan.node,         life,         plan.stage, stages,    c.blocks,
          c.block_positions, c.model_hash, c.device,   c.kv_life, c.swap_blocks};
}

} // namespace

int run_shard(const cluster_context& context, const role_arguments& arguments) {
  const auto& plan = context.plan.shards.at(arguments.index);
  const auto& agent = *std::find_if(context.plan.agents.begin(), context.plan.agents.end(),
                                    [&](const agent_plan& a) { return a.on == plan.on; });
  auto started = process::start({plan.node, arguments.epoch, role::shard, plan.name,
                                 context.dir.endpoint(plan.name, arguments.epoch), agent.node,
                                 context.dir.endpoint(agent.name)},
                                /*actor_threads=*/1);
  if (!started) {
    spdlog::error("{}", started.error().message);
    return 1;
  }
  auto& self = **started;
  self.report(phase::loading,
              fmt::format("layers {} to {}", plan.layers.first, plan.layers.end() - 1));
  auto loaded = load_engine(context, plan, arguments.kv_file);
  if (!loaded) {
    spdlog::error("{}", loaded.error().message);
    return exit_permanent;
  }
  actors::stage_config config;
  config.stage = plan.stage;
  config.stages = context.plan.stages;
  config.head = place::head;
  config.scheduler = make_proxy<actors::scheduler_actor>(self.system(), self.links(), place::head,
                                                         actors::well_known::scheduler);
  config.peers.stage =
      proxies<actors::stage_actor>(self.system(), self.links(), actors::well_known::stage);
  config.connect = [&self](const stage_address& other) {
    if (auto linked = self.links().connect(other.node, other.endpoint); !linked)
      spdlog::error("cannot connect to another stage: {}", linked.error().message);
  };
  config.announcement =
      announcement_of(plan, context.plan.stages, arguments.epoch, (*loaded)->limits());
  config.engine = *loaded;
  config.now_micros = now_micros;
  // A step takes milliseconds: a thread of its own, so that no other actor waits for it.
  auto stage = self.own_typed(self.system().spawn<caf::detached>(actors::stage, config));
  deliver_to(self.links(), actors::well_known::stage, stage);
  self.tell_peers(stage);
  self.begin();
  if (auto linked = self.links().connect(place::head, context.dir.endpoint("head")); !linked)
    spdlog::error("cannot connect to the head: {}", linked.error().message);
  self.report(phase::ready, (*loaded)->limits().device);
  self.wait();
  return 0;
}

} // namespace baton::cluster
