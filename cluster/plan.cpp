#include "cluster/plan.hpp"

#include "schema/limits.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

namespace baton::cluster {
namespace {

// Repacked weights beside the file's pages, activations, sampler scratch: the share above the
// stored weights.
constexpr double weight_overhead = 1.25;
constexpr std::uint64_t process_bytes = 64ull << 20; // code, actor system, buffers of one shard

// What waits to be copied between two steps stays below limits::copies_max.
constexpr std::uint64_t swap_blocks_max = limits::copies_max / 4;

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

// What the shards need beside their KV.
std::uint64_t bytes_without_kv(const cluster_plan& plan) {
  std::uint64_t needed = 0;
  for (const auto& s : plan.shards)
    needed += static_cast<std::uint64_t>(static_cast<double>(s.weight_bytes) * weight_overhead) +
              process_bytes;
  return needed;
}

result<void> check_memory(const cluster_plan& plan, const machine_facts& machine) {
  std::uint64_t needed = bytes_without_kv(plan);
  for (const auto& s : plan.shards)
    needed += s.kv_bytes;
  if (needed > machine.memory_available_bytes)
    return fail_param(
        errc::does_not_fit, "model.kv_cache_bytes",
        "the shards need {} (weights and KV cache), this machine has {} available: lower "
        "model.kv_cache_bytes or serve a smaller model",
        human_bytes(needed), human_bytes(machine.memory_available_bytes));
  return {};
}

std::uint64_t block_bytes(const cluster_config& config, const model::description& model,
                          const model::layer_range& layers) {
  return cpu::kv_shape{layers.count, model.kv_head_count, model.head_size,
                       config.model.kv_cache_dtype}
      .block_bytes();
}

// "auto": what max_num_seqs sequences of max_model_len need, as far as there is memory.
std::uint64_t auto_kv_bytes(const cluster_config& config, const cluster_plan& plan,
                            const machine_facts& machine, std::uint64_t block_bytes) {
  const auto context_blocks =
      (plan.max_model_len + cpu::kv_block_positions - 1) / cpu::kv_block_positions;
  const auto taken = std::min(bytes_without_kv(plan), machine.memory_available_bytes);
  const auto share = static_cast<std::uint64_t>(
      static_cast<double>(machine.memory_available_bytes - taken) * auto_kv_memory_share);
  return std::min(std::uint64_t{config.model.max_num_seqs} * context_blocks * block_bytes, share);
}

result<void> place_blocks(const cluster_config& config, const model::description& model,
                          const machine_facts& machine, cluster_plan& plan) {
  std::uint64_t per_block = 0;
  for (const auto& s : plan.shards)
    per_block += block_bytes(config, model, s.layers);
  const auto kv_bytes =
      config.model.kv_cache_bytes.value_or(auto_kv_bytes(config, plan, machine, per_block));
  auto blocks = kv_bytes / per_block;
  auto context_blocks =
      (plan.max_model_len + cpu::kv_block_positions - 1) / cpu::kv_block_positions;
  if (blocks < context_blocks)
    return fail_param(errc::does_not_fit, "model.kv_cache_bytes",
                      "model.kv_cache_bytes of {}{} holds {} positions, fewer than one sequence of "
                      "max_model_len {}: "
                      "give {} or lower model.max_model_len",
                      human_bytes(kv_bytes), config.model.kv_cache_bytes ? "" : " (\"auto\")",
                      blocks * cpu::kv_block_positions, plan.max_model_len,
                      human_bytes(context_blocks * per_block));
  plan.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, 1u << 30));
  plan.block_positions = cpu::kv_block_positions;
  if (config.model.swap_space > 0 && config.model.swap_space < per_block)
    return fail_param(errc::does_not_fit, "model.swap_space",
                      "model.swap_space of {} holds no KV block: give {} or more, or 0 for none",
                      human_bytes(config.model.swap_space), human_bytes(per_block));
  plan.swap_blocks = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(config.model.swap_space / per_block, swap_blocks_max));
  for (auto& s : plan.shards)
    s.kv_bytes = plan.blocks * block_bytes(config, model, s.layers);
  return {};
}

std::vector<std::uint32_t> without(const std::vector<std::uint32_t>& all,
                                   const std::set<std::uint32_t>& taken) {
  std::vector<std::uint32_t> left;
  std::copy_if(all.begin(), all.end(), std::back_inserter(left),
               [&](std::uint32_t core) { return !taken.contains(core); });
  return left;
}

// Of each device. "cpu:N" is the N-th core that this process may use (containers have any); a plain
// "cpu" gets an even share of the physical cores that no device names, and shares one if there are
// too few.
result<std::vector<std::vector<std::uint32_t>>>
share_cores(const std::vector<place_on_device>& devices, const machine_facts& machine) {
  std::vector<std::vector<std::uint32_t>> shares(devices.size());
  std::set<std::uint32_t> named;
  std::vector<std::size_t> unnamed; // devices
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& d = devices[i];
    for (auto core : d.what.cores) {
      if (core >= machine.cores.size())
        return fail_param(errc::bad_config, "nodes.devices",
                          "node {}: device {} names core {}, this process may use {}: 0 to {}; "
                          "\"cpu\" takes a share of them",
                          d.on, d.device_name, core, machine.cores.size(),
                          machine.cores.size() - 1);
      named.insert(machine.cores[core]);
      shares[i].push_back(machine.cores[core]);
    }
    if (d.what.cores.empty())
      unnamed.push_back(i);
  }
  const auto physical = machine.physical_cores();
  auto left = without(physical, named);
  if (left.empty())
    left = physical;
  for (std::size_t i = 0; i < unnamed.size() && !left.empty(); ++i) {
    const auto first = i * left.size() / unnamed.size();
    const auto last = std::max(first + 1, (i + 1) * left.size() / unnamed.size());
    for (auto at = first; at < last; ++at)
      shares[unnamed[i]].push_back(left[at]);
  }
  return shares;
}

// "0-1", "0,32": whether one before this core shares its physical core. No such file: no.
bool is_sibling(std::uint32_t core, const std::set<std::uint32_t>& earlier) {
  std::ifstream list(
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", core));
  std::uint32_t first = 0;
  for (char separator = ','; list >> first; list >> separator) {
    auto last = first;
    if (list.peek() == '-')
      list >> separator >> last;
    const auto at = earlier.lower_bound(first);
    if (at != earlier.end() && *at <= last)
      return true;
  }
  return false;
}

} // namespace

std::vector<std::uint32_t> machine_facts::physical_cores() const {
  return without(cores, {siblings.begin(), siblings.end()});
}

machine_facts facts_of_this_machine() {
  machine_facts facts;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed))
        facts.cores.push_back(core);
  std::set<std::uint32_t> earlier;
  for (const auto core : facts.cores) {
    if (is_sibling(core, earlier))
      facts.siblings.push_back(core);
    earlier.insert(core);
  }
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
  auto cores = share_cores(devices, machine);
  if (!cores)
    return cores.error();
  for (stage_index stage = 0; stage < plan.stages; ++stage) {
    const auto& d = devices[stage];
    shard_plan s;
    s.node = node_id{place::first_shard.value + stage};
    s.name = fmt::format("shard-{}", stage);
    s.on = d.on;
    s.device = d.device_name;
    s.cores = (*cores)[stage];
    s.threads = m.threads_per_shard ? m.threads_per_shard
                                    : std::max(1u, static_cast<std::uint32_t>(s.cores.size()));
    if (s.threads > s.cores.size())
      s.cores.clear(); // more threads than cores: the system places them
    s.cores.resize(std::min<std::size_t>(s.cores.size(), s.threads));
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
  if (auto ok = place_blocks(config, model, machine, plan); !ok)
    return ok.error();
  if (auto ok = check_memory(plan, machine); !ok)
    return ok.error();
  return plan;
}

} // namespace baton::cluster
