// The engine of a shard, chosen by its device: the native one, or one from a library. Creation has
// two steps: loading (the weights) happens before the process has threads. The rest happens once
// the other ranks and the KV memory are known.
#pragma once

#include "cluster/roles/roles.hpp"
#include "runtime/collective/collective.hpp"
#include "runtime/cpu/forward/engine_cpu.hpp"
#include "runtime/plugin/plugin_engine.hpp"

#include <functional>

namespace baton::cluster {

class shard_engine {
public:
  // Reads the weights. Errors: as engine_cpu::read; not_found (the library), as
  // plugin::library::open and plugin_engine::load.
  static result<shard_engine> begin(const cluster_context& context, const cluster_plan& all,
                                    const shard_plan& plan, const model::model_file& file);
  // A library has threads, and fork does not share a device.
  bool may_fork_standby() const noexcept { return !foreign_; }
  // `kv_file`: the native engine's KV memory. `ranks`: null if the stage is a single shard.
  // Errors: as engine_cpu::load, plugin_engine::meet.
  result<void> finish(const model::model_file& file, std::optional<int> kv_file,
                      std::shared_ptr<collective::collective> ranks);

  // Requires: finished.
  std::shared_ptr<engine::engine> engine() const;
  // Takes over the KV of another generation's shards. Null: the library's KV has an unknown layout.
  std::function<result<void>(const kv_handover&)> take_over() const;

private:
  shard_engine(const cluster_context& context, const cluster_plan& all, const shard_plan& plan)
      : context_(&context), all_(&all), plan_(&plan) {}

  const cluster_context* context_;
  const cluster_plan* all_;
  const shard_plan* plan_;
  cpu::shared_weights weights_;
  std::shared_ptr<cpu::engine_cpu> native_;
  std::shared_ptr<plugin::plugin_engine> foreign_; // from a library; otherwise native_ is set
};

} // namespace baton::cluster
