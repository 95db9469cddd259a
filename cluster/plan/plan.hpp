// Who lives where: the pure step from what the operator wrote, the model and the machine's facts to
// one shard per device with its layers, memory and cores. `cluster plan` prints it; `cluster up`
// runs it; both refuse what cannot fit by name and number.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/files/stable_name.hpp"
#include "cluster/plan/generation_book.hpp"
#include "cluster/plan/machine.hpp"
#include "cluster/plan/next_generation.hpp"
#include "runtime/model/slice.hpp"
#include "schema/ids.hpp"
#include "schema/limits.hpp"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <vector>

namespace baton::cluster {

// Fixed places: a process keeps its node id through all its lives.
namespace place {
inline constexpr node_id root{1};
inline constexpr node_id first_head{2};
inline constexpr node_id first_gateway{3};
inline constexpr node_id first_agent{16};
inline constexpr node_id further_heads{1984}; // those of pipelines behind the first
inline constexpr node_id first_shard{2048};
inline constexpr node_id head(std::uint32_t pipeline) {
  static_assert(further_heads.value + pipelines_max == first_shard.value);
  return pipeline == 0 ? first_head : node_id{further_heads.value + pipeline};
}
inline constexpr node_id agent(std::uint32_t place) {
  static_assert(first_agent.value + nodes_of_cluster_max == further_heads.value);
  return node_id{first_agent.value + place};
}
inline constexpr std::uint32_t index_of_agent(node_id agent) {
  return agent.value - first_agent.value;
}
inline constexpr node_id gateway(std::uint32_t index) {
  static_assert(first_gateway.value + gateways_max <= first_agent.value);
  return node_id{first_gateway.value + index};
}
inline constexpr std::uint32_t pipeline_of_head(node_id head) {
  return head == first_head ? 0 : head.value - further_heads.value;
}
// Those of a generation stand together; no two generations have a place in common.
inline constexpr node_id shard(std::uint32_t generation, std::uint32_t index) {
  constexpr auto shards_max = static_cast<std::uint32_t>(limits::stages_max);
  static_assert(first_shard.value + std::uint64_t{generations_max} * shards_max < 0x80000000u,
                "the highest bit is that of clients");
  return node_id{first_shard.value + generation * shards_max + index};
}
inline constexpr std::uint32_t generation_of(node_id shard) {
  return (shard.value - first_shard.value) / static_cast<std::uint32_t>(limits::stages_max);
}
inline constexpr std::uint32_t index_of(node_id shard) {
  return (shard.value - first_shard.value) % static_cast<std::uint32_t>(limits::stages_max);
}
inline constexpr node_id first_worker{0x7ff00000};
inline constexpr node_id worker(std::uint32_t index) {
  static_assert(shard(generations_max, 0).value <= first_worker.value);
  return node_id{first_worker.value + index};
}
inline constexpr std::uint32_t index_of_worker(node_id worker) {
  return worker.value - first_worker.value;
}
} // namespace place

struct shard_plan {
  node_id node;
  std::string name; // "shard-0"; "shard-1.0" of pipeline 1; "shard-0-g2" of a later generation, 2
  std::string on;   // the nodes.toml node it lives on
  std::string machine;              // and that one's machine, as in `machines`
  std::string device;               // "cpu:0"
  baton::cluster::device on_device; // the same, read
  std::vector<std::uint32_t> cores; // as the system numbers them
  std::uint32_t threads = 1;
  stage_index stage = 0;
  model::layer_range layers;
  std::uint32_t rank = 0;                  // within its stage
  std::vector<model::tensor_slice> slices; // of all ranks of its stage
  std::uint64_t weight_bytes = 0;          // of its part of its layers, as stored in the file
  std::uint64_t machine_bytes = 0;         // of these, in the memory of its machine
  std::uint64_t kv_bytes = 0;

  const model::tensor_slice& slice() const { return slices.at(rank); }
};

struct agent_plan {
  node_id node;
  std::string name; // "agent-a"
  std::string on;
  std::string machine;
  std::uint32_t devices = 0;
  stable_name listens_as;
};

// Of one pipeline.
struct cluster_plan {
  std::uint32_t pipeline = 0;
  std::uint32_t generation = 0; // no two have one in common
  std::uint32_t stages = 1;
  std::uint32_t width = 1;  // ranks of each stage
  std::uint32_t blocks = 0; // KV blocks, the same at every shard
  std::uint32_t block_positions = 0;
  std::uint32_t swap_blocks = 0; // places for them in each shard's swap space
  std::uint32_t max_model_len = 0;
  std::vector<shard_plan> shards; // [stage * width + rank]
};

// The ranks of its stage, this one among them.
std::span<const shard_plan> stage_of(const cluster_plan& plan, const shard_plan& shard);
// Whether they are on several nodes: no agent holds memory for all of them, so they meet over the
// bus.
bool meets_over_bus(const cluster_plan& plan, const shard_plan& shard);

// Of all nodes, in the order of the configuration.
std::vector<agent_plan> agents_of(const cluster_config& config);
// Null if that node has none.
const agent_plan* agent_on(const std::vector<agent_plan>& agents, std::string_view node);

// With kv_cache_bytes = "auto": at most this share of the memory that the weights leave, divided
// among the pipelines that have devices on the machine. The rest is for heads and gateway, the page
// cache and whatever else lives there.
inline constexpr double auto_kv_memory_share = 0.5;

// Of the pipeline that `config` is a view of (pipelines.hpp). `known`: every machine that has
// layers, and others. Errors: bad_config (more shards than devices,
// or fewer, a core that is not there, a machine that is not known),
// does_not_fit (layers, heads, memory; names what and the number).
result<cluster_plan> make_plan(const cluster_config& config, const model::description& model,
                               const machines& known);
// The same for another generation than the first (next_generation.hpp).
result<cluster_plan> make_plan(const cluster_config& config, const model::description& model,
                               const machines& known, const generation& which);
// All of them at the same time: pipelines beside one another, a generation beside the one that it
// takes over from. Errors: does_not_fit.
result<void> check_fits_beside(const std::vector<const cluster_plan*>& there,
                               const cluster_plan& coming, const machines& known);

// As expected_speed.hpp finds it.
struct expected_speed {
  std::uint32_t streams = 0;    // that decode, none of them guessing
  double tokens_per_second = 0; // of all together
};
// A table for people, and the same for scripts.
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
