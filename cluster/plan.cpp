#include "cluster/plan.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace baton::cluster {
namespace {

constexpr std::uint32_t kv_element_bytes = 2; // float16
// Repacked weights beside the file's pages, activations, sampler scratch: the share above the
// stored weights.
constexpr double weight_overhead = 1.25;
constexpr std::uint64_t process_bytes = 64ull << 20; // code, actor system, buffers of one shard

struct place_on_device {
  std::string on;
  std::string device_name;
  device what;
};

std::vector<place_on_device> all_devices(const cluster_config& config) {
  std::vector<place_on_device> devices;
  for (const auto& n : config.nodes)
    for (const auto& text : n.devices) {
      auto d = parse_device(text);
      ENSURE(d.has_value(), "device '{}' was checked when the configuration was read", text);
      devices.push_back({n.name, text, std::move(*d)});
    }
  return devices;
}

result<void> check_memory(const cluster_plan& plan, const machine_facts& machine) {
  std::uint64_t needed = 0;
  for (const auto& s : plan.shards)
    needed += static_cast<std::uint64_t>(static_cast<double>(s.weight_bytes) * weight_overhead) +
              s.kv_bytes + process_bytes;
  if (needed > machine.memory_available_bytes)
    return fail_param(
        errc::does_not_fit, "model.kv_cache_bytes",
        "the shards need {} (weights and KV cache), this machine has {} available: lower "
        "model.kv_cache_bytes or serve a smaller model",
        human_bytes(needed), human_bytes(machine.memory_available_bytes));
  return {};
}

result<void> place_blocks(const cluster_config& config, const model::description& model,
                          cluster_plan& plan) {
  std::uint64_t per_block = 0;
  for (const auto& s : plan.shards)
    per_block += model::kv_bytes_per_block(model, s.layers, cpu_block_positions, kv_element_bytes);
  auto blocks = config.model.kv_cache_bytes / per_block;
  auto context_blocks = (plan.max_model_len + cpu_block_positions - 1) / cpu_block_positions;
  if (blocks < context_blocks)
    return fail_param(errc::does_not_fit, "model.kv_cache_bytes",
                      "model.kv_cache_bytes of {} holds {} positions, fewer than one sequence of "
                      "max_model_len {}: "
                      "give {} or lower model.max_model_len",
                      human_bytes(config.model.kv_cache_bytes), blocks * cpu_block_positions,
                      plan.max_model_len, human_bytes(context_blocks * per_block));
  plan.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, 1u << 30));
  plan.block_positions = cpu_block_positions;
  for (auto& s : plan.shards)
    s.kv_bytes = plan.blocks *
                 model::kv_bytes_per_block(model, s.layers, cpu_block_positions, kv_element_bytes);
  return {};
}

} // namespace

machine_facts facts_of_this_machine() {
  machine_facts facts;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    facts.cores = static_cast<std::uint32_t>(CPU_COUNT(&cores));
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:")
      facts.memory_available_bytes = kib * 1024;
    meminfo.ignore(256, '\n');
  }
  return facts;
}

result<cluster_plan> make_plan(const cluster_config& config, const model::description& model,
                               const machine_facts& machine) {
  const auto& m = config.model;
  auto devices = all_devices(config);
  if (devices.size() != m.pipeline_parallel_size)
    return fail_param(
        errc::bad_config, "model.pipeline_parallel_size",
        "model.pipeline_parallel_size is {} but the nodes have {} devices: one device per stage",
        m.pipeline_parallel_size, devices.size());
  cluster_plan plan;
  plan.stages = m.pipeline_parallel_size;
  plan.max_model_len = m.max_model_len ? m.max_model_len : model.context_length;
  if (plan.max_model_len > model.context_length)
    return fail_param(errc::bad_config, "model.max_model_len",
                      "model.max_model_len {} is beyond the context {} was trained with, {}",
                      plan.max_model_len, model.name, model.context_length);
  auto ranges = model::partition(model, plan.stages);
  if (!ranges)
    return ranges.error();
  for (stage_index stage = 0; stage < plan.stages; ++stage) {
    const auto& d = devices[stage];
    for (auto core : d.what.cores)
      if (core >= machine.cores)
        return fail_param(errc::bad_config, "nodes.devices",
                          "node {}: device {} names core {}, this machine has cores 0 to {}", d.on,
                          d.device_name, core, machine.cores - 1);
    shard_plan s;
    s.node = node_id{place::first_shard.value + stage};
    s.name = fmt::format("shard-{}", stage);
    s.on = d.on;
    s.device = d.device_name;
    s.cores = d.what.cores;
    s.threads =
        m.threads_per_shard ? m.threads_per_shard : static_cast<std::uint32_t>(d.what.cores.size());
    s.stage = stage;
    s.layers = (*ranges)[stage];
    for (auto layer = s.layers.first; layer < s.layers.end(); ++layer)
      s.weight_bytes += model.layer_bytes[layer];
    s.weight_bytes +=
        (s.layers.embeds ? model.embedding_bytes : 0) + (s.layers.heads ? model.head_bytes : 0);
    plan.shards.push_back(std::move(s));
  }
  for (std::uint32_t i = 0; i < config.nodes.size(); ++i)
    plan.agents.push_back({node_id{place::first_agent.value + i}, "agent-" + config.nodes[i].name,
                           config.nodes[i].name});
  if (auto ok = place_blocks(config, model, plan); !ok)
    return ok.error();
  if (auto ok = check_memory(plan, machine); !ok)
    return ok.error();
  return plan;
}

} // namespace baton::cluster
