// Computes the layout: from the operator's configuration, the model and the machines' facts to one
// shard per device with its layers, memory and cores. Pure. `cluster plan` prints it; `cluster up`
// runs it; both reject what cannot fit, with names and numbers.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/files/stable_name.hpp"
#include "cluster/machines/machine.hpp"
#include "cluster/membership/generation_registry.hpp"
#include "cluster/plan/next_generation.hpp"
#include "runtime/model/slice.hpp"
#include "schema/ids.hpp"
#include "schema/limits.hpp"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace baton::cluster {

// Fixed ids: a process keeps its id across all its incarnations.
namespace process_ids {
inline constexpr process_id root{1};
inline constexpr process_id first_head{2};
inline constexpr process_id first_gateway{3};
inline constexpr process_id first_agent{16};
inline constexpr process_id further_heads{1984}; // of pipelines after the first
inline constexpr process_id first_shard{2048};
inline constexpr process_id head(std::uint32_t pipeline) {
  static_assert(further_heads.value + pipelines_max == first_shard.value);
  return pipeline == 0 ? first_head : process_id{further_heads.value + pipeline};
}
inline constexpr process_id agent(std::uint32_t index) {
  static_assert(first_agent.value + nodes_of_cluster_max == further_heads.value);
  return process_id{first_agent.value + index};
}
inline constexpr std::uint32_t index_of_agent(process_id agent) {
  return agent.value - first_agent.value;
}
inline constexpr process_id gateway(std::uint32_t index) {
  static_assert(first_gateway.value + gateways_max <= first_agent.value);
  return process_id{first_gateway.value + index};
}
inline constexpr std::uint32_t pipeline_of_head(process_id head) {
  return head == first_head ? 0 : head.value - further_heads.value;
}
// Ids of a generation are contiguous; no two generations share an id.
inline constexpr process_id shard(std::uint32_t generation, std::uint32_t index) {
  constexpr auto shards_max = static_cast<std::uint32_t>(limits::stages_max);
  static_assert(first_shard.value + std::uint64_t{generations_max} * shards_max < 0x80000000u,
                "the highest bit is that of clients");
  return process_id{first_shard.value + generation * shards_max + index};
}
inline constexpr std::uint32_t generation_of(process_id shard) {
  return (shard.value - first_shard.value) / static_cast<std::uint32_t>(limits::stages_max);
}
inline constexpr std::uint32_t index_of(process_id shard) {
  return (shard.value - first_shard.value) % static_cast<std::uint32_t>(limits::stages_max);
}
inline constexpr process_id first_worker{0x7ff00000};
inline constexpr process_id worker(std::uint32_t index) {
  static_assert(shard(generations_max, 0).value <= first_worker.value);
  return process_id{first_worker.value + index};
}
inline constexpr std::uint32_t index_of_worker(process_id worker) {
  return worker.value - first_worker.value;
}
} // namespace process_ids

struct shard_plan {
  process_id process;
  std::string name;    // "shard-0"; "shard-1.0" of pipeline 1; "shard-0-g2" of generation 2
  std::string on;      // name of its node in nodes.toml
  std::string machine; // the node's machine, as in `machines`
  std::string device;  // "cpu:0"
  baton::cluster::device on_device; // parsed
  std::vector<std::uint32_t> cores; // in the system's numbering
  std::uint32_t threads = 1;
  stage_index stage = 0;
  model::layer_range layers;
  std::uint32_t rank = 0;                  // within its stage
  std::vector<model::tensor_slice> slices; // of all ranks of the stage
  std::uint64_t weight_bytes = 0;          // of its part of the layers, as stored in the file
  std::uint64_t machine_bytes = 0;         // the part in its machine's memory
  std::uint64_t kv_bytes = 0;

  const model::tensor_slice& slice() const { return slices.at(rank); }
};

struct agent_plan {
  process_id process;
  std::string name; // "agent-a"
  std::string on;
  std::string machine;
  std::uint32_t devices = 0;
  stable_name listens_as;
};

// The plan of one pipeline.
struct cluster_plan {
  std::uint32_t pipeline = 0;
  std::uint32_t generation = 0; // unique among pipelines
  std::uint32_t stages = 1;
  std::uint32_t width = 1;  // ranks per stage
  std::uint32_t blocks = 0; // KV blocks, the same for every shard
  std::uint32_t block_positions = 0;
  std::uint32_t swap_blocks = 0; // blocks in each shard's swap space
  std::uint32_t state_slots = 0; // slots of recurrent states, the same for every shard; 0: none
  std::uint32_t max_model_len = 0;
  std::vector<shard_plan> shards; // [stage * width + rank]
};

// All ranks of the shard's stage.
std::span<const shard_plan> stage_of(const cluster_plan& plan, const shard_plan& shard);
// Whether the ranks are on several nodes: then they share no memory and meet over the bus.
bool meets_over_bus(const cluster_plan& plan, const shard_plan& shard);

// Agents of all nodes, in the order of the configuration.
std::vector<agent_plan> agents_of(const cluster_config& config);
// Null if that node has no agent.
const agent_plan* agent_on(const std::vector<agent_plan>& agents, std::string_view node);

// With kv_cache_bytes = "auto": the maximum share of the memory left by the weights, divided among
// the pipelines with devices on the machine. The rest is for heads, gateway, the page cache and
// other programs.
inline constexpr double auto_kv_memory_share = 0.5;

// Plans the pipeline of the view `config` (pipelines.hpp). `known`: facts of machines, including
// all with layers. Errors: bad_config (wrong number of devices, a missing core, an unknown
// machine), does_not_fit (layers, heads, memory; names what and the number).
result<cluster_plan> make_plan(const cluster_config& config, const model::description& model,
                               const machines& known);
// The same for a later generation (next_generation.hpp).
result<cluster_plan> make_plan(const cluster_config& config, const model::description& model,
                               const machines& known, const generation& which);
// Whether all fit at the same time: several pipelines, or a generation beside its predecessor.
// Errors: does_not_fit.
result<void> check_fits_beside(const std::vector<const cluster_plan*>& there,
                               const cluster_plan& coming, const machines& known);

// A prediction by expected_speed.hpp.
struct expected_speed {
  std::uint32_t streams = 0;    // decoding, without speculation
  double tokens_per_second = 0; // over all streams
};
// A table for people, and JSON for scripts.
std::string plan_table(const cluster_config& config, const model::description& model,
                       const cluster_plan& plan, const std::vector<expected_speed>& expected = {},
                       const machines& known = {});
nlohmann::ordered_json plan_json(const cluster_config& config, const model::description& model,
                                 const cluster_plan& plan,
                                 const std::vector<expected_speed>& expected = {},
                                 const machines& known = {});

// "512.0 MiB"
std::string human_bytes(std::uint64_t bytes);

} // namespace baton::cluster
