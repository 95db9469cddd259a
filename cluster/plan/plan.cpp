#include "cluster/plan/plan.hpp"

#include "cluster/config/pipelines.hpp"
#include "cluster/plan/model_fit.hpp"
#include "cluster/plan/plan_engines.hpp"
#include "cluster/plan/stage_speeds.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <iterator>
#include <span>

namespace baton::cluster {
namespace {

// Keeps the copies between two steps below limits::copies_max.
constexpr std::uint64_t swap_blocks_max = limits::copies_max / 4;
constexpr std::uint64_t slots_min = 2; // recurrent states of one sequence

struct place_on_device {
  std::string on;
  std::string machine;
  std::string device_name;
  std::uint32_t owner = 0; // the pipeline of its shard
  device what;
};

std::string machine_of(const node_config& node) {
  return node.is_elsewhere ? node.name : root_machine;
}

// Devices of this pipeline in the generation, and of all others, which occupy their cores.
std::vector<place_on_device> all_devices(const cluster_config& config, const generation& which) {
  std::vector<place_on_device> devices;
  for (const auto& n : config.nodes)
    for (std::size_t i = 0; i < n.devices.size(); ++i) {
      if (n.owner(i) == config.pipeline && !has_shards_on(which, n.name))
        continue;
      auto d = parse_device(n.devices[i]);
      ENSURE(d.has_value(), "device '{}' was checked when the configuration was read",
             n.devices[i]);
      devices.push_back({.on = n.name,
                         .machine = machine_of(n),
                         .device_name = n.devices[i],
                         .owner = n.owner(i),
                         .what = std::move(*d)});
    }
  return devices;
}

// Memory of the shards on a machine without their KV.
std::uint64_t bytes_without_kv(const cluster_plan& plan, const std::string& machine) {
  std::uint64_t needed = 0;
  for (const auto& s : plan.shards)
    if (s.machine == machine)
      needed += bytes_without_kv(s);
  return needed;
}

std::uint64_t bytes_with_kv(const cluster_plan& plan, const std::string& machine) {
  auto needed = bytes_without_kv(plan, machine);
  for (const auto& s : plan.shards)
    if (s.machine == machine && !s.on_device.has_own_memory())
      needed += s.kv_bytes;
  return needed;
}

result<void> check_memory(const cluster_plan& plan, const machines& known) {
  for (const auto& [name, machine] : known) {
    const auto needed = bytes_with_kv(plan, name);
    if (needed > machine.memory_available_bytes)
      return fail_param(errc::does_not_fit, "model.kv_cache_bytes",
                        "the shards{} need {} (weights and KV cache), {} has {} available: lower "
                        "model.kv_cache_bytes or serve a smaller model",
                        name == root_machine ? "" : " of node " + name, human_bytes(needed),
                        name == root_machine ? "this machine" : "its machine",
                        human_bytes(machine.memory_available_bytes));
  }
  return {};
}

// Bytes per block of a shard: keys and values of its layers and heads.
std::uint64_t block_bytes(const cluster_config& config, const model::description& model,
                          const shard_plan& shard) {
  const auto heads = model::sliced(model, shard.slice()).largest_heads();
  return cpu::kv_shape{.layers = model.kv_layers(shard.layers.first, shard.layers.end()),
                       .kv_heads = heads.kv_count,
                       .head_size = heads.size,
                       .format = config.model.kv_cache_dtype}
      .block_bytes();
}

// Bytes of a sequence's state in a shard's recurrent layers.
std::uint64_t slot_bytes(const model::description& model, const shard_plan& shard) {
  return model.state_bytes(shard.layers.first, shard.layers.end());
}

// The number of pipelines with devices on a machine that run at a time.
std::size_t pipelines_on(const cluster_config& config, const std::string& machine) {
  std::set<std::uint32_t> owners;
  bool has_shared = false;
  for (const auto& n : config.nodes)
    for (std::size_t i = 0; machine_of(n) == machine && i < n.devices.size(); ++i)
      if (const auto owner = n.owner(i);
          owner == shared_device || (owner == config.pipeline && config.model.loads_on_demand))
        has_shared = true;
      else
        owners.insert(owner);
  return std::max<std::size_t>(1, owners.size() + (has_shared ? loaded_at_once(config) : 0));
}

// KV blocks and slots of recurrent states, the same for every shard.
struct kv_numbers {
  std::uint64_t blocks = 0, slots = 0;
};

// A running sequence holds two states. A third one serves cached prefixes and sequences that wait.
std::uint64_t slots_wanted(const cluster_config& config, const model::description& model) {
  return model.recurrence ? std::uint64_t{3} * config.model.max_num_seqs : 0;
}

std::uint64_t blocks_of_context(const cluster_plan& plan) {
  return (plan.max_model_len + cpu::kv_block_positions - 1) / cpu::kv_block_positions;
}

// Divides memory among blocks and slots. Slots get at most half of it, and leave room for the
// longest sequence, but one sequence needs its own.
kv_numbers numbers_in(std::uint64_t bytes, const kv_numbers& wanted, std::uint64_t context_blocks,
                      std::uint64_t per_block, std::uint64_t per_slot) {
  kv_numbers found = wanted;
  if (per_slot > 0) {
    const auto beside_context = bytes - std::min(bytes, context_blocks * per_block);
    const auto most = std::min(bytes / 2, std::max(beside_context, slots_min * per_slot));
    found.slots = std::min(found.slots, most / per_slot);
  }
  if (per_block > 0)
    found.blocks = std::min(found.blocks, (bytes - found.slots * per_slot) / per_block);
  return found;
}

// "auto": enough for max_num_seqs sequences of max_model_len, limited by the memory of every
// machine.
kv_numbers auto_numbers(const cluster_config& config, const model::description& model,
                        const cluster_plan& plan, const machines& known) {
  const auto context_blocks = blocks_of_context(plan);
  kv_numbers found{.blocks = std::uint64_t{config.model.max_num_seqs} * context_blocks,
                   .slots = slots_wanted(config, model)};
  for (const auto& [name, machine] : known) {
    std::uint64_t per_block = 0, per_slot = 0;
    for (const auto& s : plan.shards)
      if (s.machine == name) {
        per_block += block_bytes(config, model, s);
        per_slot += slot_bytes(model, s);
      }
    const auto taken = std::min(bytes_without_kv(plan, name), machine.memory_available_bytes);
    const auto share = static_cast<std::uint64_t>(
        static_cast<double>(machine.memory_available_bytes - taken) * auto_kv_memory_share /
        static_cast<double>(pipelines_on(config, name)));
    found = numbers_in(share, found, context_blocks, per_block, per_slot);
  }
  return found;
}

// The context without max_model_len: the one of its training. A directory's models have different
// ones, so each of them has what its KV cache holds of it.
std::uint32_t default_context(const model_config& m, const model::description& model) {
  if (m.models_dir.empty() || !m.kv_cache_bytes)
    return model.context_length;
  const auto heads = model.largest_heads();
  const auto block = cpu::kv_shape{.layers = model.kv_layers(0, model.layer_count),
                                   // ranks that border on each other may share one
                                   .kv_heads = heads.kv_count + m.tensor_parallel_size - 1,
                                   .head_size = heads.size,
                                   .format = m.kv_cache_dtype}
                         .block_bytes();
  const auto states = slots_min * model.state_bytes(0, model.layer_count);
  const auto room = *m.kv_cache_bytes - std::min(*m.kv_cache_bytes, states);
  if (block == 0)
    return model.context_length;
  const auto positions = room / block * cpu::kv_block_positions;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(positions, cpu::kv_block_positions, model.context_length));
}

error too_few_blocks(const cluster_config& config, const cluster_plan& plan, const kv_numbers& has,
                     std::uint64_t per_block, std::uint64_t per_slot) {
  const auto given =
      config.model.kv_cache_bytes.value_or(has.blocks * per_block + has.slots * per_slot);
  const auto needed = std::max(blocks_of_context(plan) * per_block + slots_min * per_slot,
                               2 * slots_min * per_slot);
  if (per_slot > 0 && has.slots < slots_min)
    return fail_param(errc::does_not_fit, "model.kv_cache_bytes",
                      "model.kv_cache_bytes of {}{} holds {} recurrent states of {}, and a "
                      "sequence needs {}: give {} or more",
                      human_bytes(given), config.model.kv_cache_bytes ? "" : " (\"auto\")",
                      has.slots, human_bytes(per_slot), slots_min, human_bytes(needed));
  return fail_param(errc::does_not_fit, "model.kv_cache_bytes",
                    "model.kv_cache_bytes of {}{} holds {} positions, fewer than one sequence of "
                    "max_model_len {}: give {} or lower model.max_model_len",
                    human_bytes(given), config.model.kv_cache_bytes ? "" : " (\"auto\")",
                    has.blocks * cpu::kv_block_positions, plan.max_model_len, human_bytes(needed));
}

result<void> place_blocks(const cluster_config& config, const model::description& model,
                          const machines& known, cluster_plan& plan) {
  std::uint64_t per_block = 0, per_slot = 0;
  for (const auto& s : plan.shards) {
    per_block += block_bytes(config, model, s);
    per_slot += slot_bytes(model, s);
  }
  const auto has = config.model.kv_cache_bytes
                       ? numbers_in(*config.model.kv_cache_bytes,
                                    {.blocks = 1U << 30U, .slots = slots_wanted(config, model)},
                                    blocks_of_context(plan), per_block, per_slot)
                       : auto_numbers(config, model, plan, known);
  if (has.blocks < blocks_of_context(plan) || (per_slot > 0 && has.slots < slots_min))
    return too_few_blocks(config, plan, has, per_block, per_slot);
  plan.blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(has.blocks, 1u << 30));
  plan.block_positions = cpu::kv_block_positions;
  plan.state_slots = static_cast<std::uint32_t>(has.slots);
  if (config.model.swap_space > 0 && config.model.swap_space < per_block)
    return fail_param(errc::does_not_fit, "model.swap_space",
                      "model.swap_space of {} holds no KV block: give {} or more, or 0 for none",
                      human_bytes(config.model.swap_space), human_bytes(per_block));
  plan.swap_blocks = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(config.model.swap_space / per_block, swap_blocks_max));
  for (auto& s : plan.shards)
    s.kv_bytes = plan.blocks * block_bytes(config, model, s) + has.slots * slot_bytes(model, s);
  return {};
}

std::vector<std::uint32_t> without(const std::vector<std::uint32_t>& all,
                                   const std::set<std::uint32_t>& taken) {
  std::vector<std::uint32_t> left;
  std::copy_if(all.begin(), all.end(), std::back_inserter(left),
               [&](std::uint32_t core) { return !taken.contains(core); });
  return left;
}

// Sets the cores of each device of one machine. "cpu:N" is the N-th core available to its processes
// (containers have any). A plain "cpu" gets an even share of the unnamed physical cores, and shares
// one if there are too few.
result<void> share_cores(const std::vector<place_on_device>& devices,
                         const std::vector<std::size_t>& of_machine, const machine_facts& machine,
                         std::vector<std::vector<std::uint32_t>>& shares) {
  std::set<std::uint32_t> named;
  std::vector<std::size_t> unnamed; // indices into devices
  for (const auto i : of_machine) {
    const auto& d = devices[i];
    if (!d.what.is_native()) { // no core of its own; the system schedules its threads
      shares[i] = machine.physical_cores();
      continue;
    }
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
  return {};
}

result<std::vector<std::vector<std::uint32_t>>>
share_cores(const std::vector<place_on_device>& devices, const machines& known) {
  std::vector<std::vector<std::uint32_t>> shares(devices.size());
  for (const auto& [name, machine] : known) {
    std::vector<std::size_t> of_machine;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i].machine == name)
        of_machine.push_back(i);
    if (auto ok = share_cores(devices, of_machine, machine, shares); !ok)
      return ok.error();
  }
  return shares;
}

// Machines without layers need no facts.
result<void> check_known(const cluster_config& config, const generation& which,
                         const machines& known) {
  for (const auto& n : config.nodes)
    if (own_devices(config, n) > 0 && has_shards_on(which, n.name) &&
        !known.contains(machine_of(n)))
      return fail_param(errc::bad_config, "nodes.host",
                        "node {} is on another machine ({}), which has not joined: its cores and "
                        "memory are not known",
                        n.name, n.host);
  return {};
}

// A stage takes consecutive devices, one per rank.
result<void> check_devices(const cluster_config& config, const generation& which) {
  if (which.stages == 0)
    return {};
  const auto devices = own_devices(config, which);
  if (which.width == 1) {
    if (devices != which.stages)
      return fail_param(
          errc::bad_config, "model.pipeline_parallel_size",
          "model.pipeline_parallel_size is {} but the nodes have {} devices: one device per stage",
          which.stages, devices);
    return {};
  }
  const auto shards = std::size_t{which.stages} * which.width;
  if (shards > limits::stages_max)
    return fail_param(errc::bad_config, "model.tensor_parallel_size",
                      "{} stages of {} ranks are {} shards, a cluster has at most {}", which.stages,
                      which.width, shards, limits::stages_max);
  if (devices != shards)
    return fail_param(errc::bad_config, "model.tensor_parallel_size",
                      "{} stages (model.pipeline_parallel_size) of {} ranks "
                      "(model.tensor_parallel_size) are {} shards, but the nodes have {} devices: "
                      "one device per shard",
                      which.stages, which.width, shards, devices);
  return {};
}

shard_plan make_shard(const cluster_config& config, const place_on_device& where, std::size_t index,
                      std::vector<std::uint32_t> cores, const generation& which) {
  const auto& m = config.model;
  shard_plan s;
  s.process = process_ids::shard(which.number, static_cast<std::uint32_t>(index));
  s.name = config.pipeline == 0 ? fmt::format("shard-{}", index)
                                : fmt::format("shard-{}.{}", config.pipeline, index);
  if (which.number != first_number(config))
    s.name += fmt::format("-g{}", which.number);
  s.on = where.on;
  s.machine = where.machine;
  s.device = where.device_name;
  s.on_device = where.what;
  s.cores = std::move(cores);
  s.threads = m.threads_per_shard ? m.threads_per_shard
                                  : std::max(1u, static_cast<std::uint32_t>(s.cores.size()));
  if (s.threads > s.cores.size() || !s.on_device.is_native())
    s.cores.clear(); // more threads than cores: the system schedules them
  s.cores.resize(std::min<std::size_t>(s.cores.size(), s.threads));
  s.stage = static_cast<stage_index>(index / which.width);
  s.rank = static_cast<std::uint32_t>(index % which.width);
  return s;
}

// Assigns layers to stages: faster stages get more.
result<void> cut_model(const model::description& model, const machines& known, cluster_plan& plan) {
  const auto ranges = model::partition(model, plan.stages, stage_speeds(plan, known));
  if (!ranges)
    return fail_param(ranges.error().code, "model.pipeline_parallel_size",
                      "model.pipeline_parallel_size is {}: {}", plan.stages,
                      ranges.error().message);
  for (auto& s : plan.shards)
    s.layers = (*ranges)[s.stage];
  return {};
}

// Assigns slices to the ranks of a stage: ranks with more threads get more.
result<void> cut_stage(const model::description& model, std::span<shard_plan> ranks) {
  std::vector<double> speeds;
  for (const auto& s : ranks)
    speeds.push_back(s.threads);
  const bool are_native = std::all_of(ranks.begin(), ranks.end(),
                                      [](const auto& s) { return s.on_device.is_native(); });
  auto slices =
      model::split(model, static_cast<std::uint32_t>(ranks.size()), speeds, model.cuts,
                   are_native ? model::head_cut::anywhere : model::head_cut::between_kv_heads);
  if (!slices)
    return fail_param(slices.error().code, "model.tensor_parallel_size",
                      "model.tensor_parallel_size is {}: {}", ranks.size(), slices.error().message);
  for (auto& s : ranks) {
    s.slices = *slices;
    s.weight_bytes = model::rank_bytes(model, s.layers, s.slice());
  }
  return {};
}

} // namespace

result<void> check_fits_beside(const std::vector<const cluster_plan*>& there,
                               const cluster_plan& coming, const machines& known) {
  for (const auto& [name, machine] : known) {
    std::uint64_t before = 0;
    for (const auto* plan : there)
      before += bytes_with_kv(*plan, name);
    const auto after = bytes_with_kv(coming, name);
    if (before + after > machine.memory_available_bytes)
      return fail_param(errc::does_not_fit, "model.kv_cache_bytes",
                        "the serving shards{} use {}, the new ones need {} beside them "
                        "(weights and KV cache), and its machine had {} available for both",
                        name == root_machine ? "" : " on node " + name, human_bytes(before),
                        human_bytes(after), human_bytes(machine.memory_available_bytes));
  }
  return {};
}

std::span<const shard_plan> stage_of(const cluster_plan& plan, const shard_plan& shard) {
  return std::span(plan.shards).subspan(std::size_t{shard.stage} * plan.width, plan.width);
}

bool meets_over_bus(const cluster_plan& plan, const shard_plan& shard) {
  const auto ranks = stage_of(plan, shard);
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const shard_plan& s) { return s.on != shard.on; });
}

std::vector<agent_plan> agents_of(const cluster_config& config) {
  const auto pipelines = models_of_pipelines(config).size();
  std::vector<agent_plan> agents;
  for (const auto& n : config.nodes)
    agents.push_back({.process = process_ids::agent(n.agent_index),
                      .name = "agent-" + n.name,
                      .on = n.name,
                      .machine = machine_of(n),
                      .devices = static_cast<std::uint32_t>(n.devices.size()),
                      .listens_as = agent_name("agent-" + n.name, pipelines, n.agent_index)});
  return agents;
}

const agent_plan* agent_on(const std::vector<agent_plan>& agents, std::string_view node) {
  const auto it =
      std::find_if(agents.begin(), agents.end(), [&](const agent_plan& a) { return a.on == node; });
  return it == agents.end() ? nullptr : &*it;
}

result<cluster_plan> make_plan(const cluster_config& config, const model::description& model,
                               const machines& known) {
  return make_plan(config, model, known, first_generation(config));
}

result<cluster_plan> make_plan(const cluster_config& config, const model::description& model,
                               const machines& known, const generation& which) {
  const auto& m = config.model;
  if (config.nodes.size() > nodes_of_cluster_max)
    return fail_param(errc::bad_config, "nodes", "there are {} nodes, at most {} are possible",
                      config.nodes.size(), nodes_of_cluster_max);
  if (auto ok = check_known(config, which, known); !ok)
    return ok.error();
  if (auto ok = check_devices(config, which); !ok)
    return ok.error();
  cluster_plan plan;
  plan.pipeline = config.pipeline;
  plan.generation = which.number;
  plan.stages = which.stages;
  plan.width = which.width;
  plan.max_model_len = m.max_model_len ? m.max_model_len : default_context(m, model);
  if (plan.max_model_len > model.context_length)
    return fail_param(errc::bad_config, "model.max_model_len",
                      "model.max_model_len {} is beyond the context {} was trained with, {}",
                      plan.max_model_len, model.name, model.context_length);
  if (m.max_batch_total_tokens != 0 && m.max_batch_total_tokens < plan.max_model_len)
    return fail_param(errc::bad_config, "model.max_batch_total_tokens",
                      "model.max_batch_total_tokens of {} has no room for one sequence of "
                      "max_model_len {}: raise it, or lower model.max_model_len",
                      m.max_batch_total_tokens, plan.max_model_len);
  const auto devices = all_devices(config, which);
  auto cores = share_cores(devices, known);
  if (!cores)
    return cores.error();
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].owner == config.pipeline)
      plan.shards.push_back(
          make_shard(config, devices[i], plan.shards.size(), std::move((*cores)[i]), which));
  if (plan.shards.empty()) // a waiting replica
    return plan;
  if (auto ok = check_engines(config, plan); !ok)
    return ok.error();
  if (auto ok = cut_model(model, known, plan); !ok)
    return ok.error();
  for (std::size_t first = 0; first < plan.shards.size(); first += plan.width)
    if (auto ok = cut_stage(model, std::span(plan.shards).subspan(first, plan.width)); !ok)
      return ok.error();
  for (auto& s : plan.shards)
    s.machine_bytes = weight_bytes_of(m, model, s);
  if (auto ok = place_blocks(config, model, known, plan); !ok)
    return ok.error();
  if (auto ok = check_memory(plan, known); !ok)
    return ok.error();
  return plan;
}

} // namespace baton::cluster
