#include "cluster/config/pipelines.hpp"
#include "cluster/config/readers/model_sampling.hpp"
#include "cluster/plan/expected_speed.hpp"
#include "cluster/plan/plan_engines.hpp"
#include "cluster/plan/plan_picture.hpp"
#include "schema/sampling_members.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>

namespace baton::cluster {

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

namespace {

// The cost of a non-default type on the default model (docs/decisions/0011-kv-cache-types.md); ""
// for the default.
std::string_view cost_of(cpu::kv_format format) {
  switch (format) {
  case cpu::kv_format::f16:
    return "";
  case cpu::kv_format::f32:
    return "  KV f32: twice the memory of f16, and no better answers\n";
  case cpu::kv_format::q8_0:
    return "  KV q8_0: 0.53 of the memory of f16, perplexity +0.15 % on the default model\n";
  }
  return "";
}

// "1 of 2: heads 6-8, ffn 768": query heads and rows of the ffn; "" for a stage of one shard.
std::string part_of(const cluster_plan& plan, const shard_plan& shard) {
  if (plan.width == 1)
    return "";
  const auto& own = shard.slice();
  return fmt::format("  rank {} of {}: KV heads {}-{}, heads {}-{}, ffn {}", shard.rank, plan.width,
                     own.kv_heads.first, own.kv_heads.end() - 1, own.heads.first,
                     own.heads.end() - 1, own.ffn.count);
}

// Empty if the ranks of every stage are on one node.
std::string meetings_over_bus(const cluster_plan& plan) {
  std::string text;
  for (const auto& s : plan.shards) {
    if (s.rank > 0 || !meets_over_bus(plan, s))
      continue;
    std::vector<std::string> names;
    for (const auto& each : stage_of(plan, s))
      names.push_back(each.name);
    text += fmt::format("  {} of stage {} meet over the bus, twice in every layer: they are on "
                        "several nodes; on one node it would take a hundredth of the time\n",
                        fmt::join(names, " and "), s.stage);
  }
  return text;
}

// A warning if there are fewer positions per sequence than a short question and answer need.
std::string scarcity(const cluster_config& config, const cluster_plan& plan) {
  constexpr std::uint64_t positions_least = 256;
  const auto tokens = std::uint64_t{plan.blocks} * plan.block_positions;
  const auto sequences = std::uint64_t{config.model.max_num_seqs};
  if (tokens >= sequences * positions_least)
    return "";
  return fmt::format("  warning: the KV cache has {} tokens for each of {} sequences: those that "
                     "find no room wait, or are computed again; raise model.kv_cache_bytes or "
                     "lower model.max_num_seqs to {}\n",
                     tokens / sequences, sequences,
                     std::max<std::uint64_t>(1, tokens / positions_least));
}

// "  expected: 150 tokens/s for one stream, 480 for 8, 560 for 32"; empty if not known.
std::string speeds(const std::vector<expected_speed>& expected) {
  std::string text;
  for (const auto& e : expected)
    text += text.empty()
                ? fmt::format("  expected: {:.0f} tokens/s for {}", e.tokens_per_second,
                              e.streams == 1 ? "one stream" : fmt::format("{} streams", e.streams))
                : fmt::format(", {:.0f} for {}", e.tokens_per_second, e.streams);
  return text.empty() ? text : text + "; more with accepted drafts\n";
}

// Only fields that are set.
nlohmann::ordered_json sampling_json(const sampling_defaults& d) {
  auto json = nlohmann::ordered_json::object();
  for_each_sampling_field([&](sampling_field field, auto member) {
    if (const auto& value = d.*member)
      json[std::string(name_of(field))] = *value;
  });
  return json;
}

} // namespace

std::string plan_table(const cluster_config& config, const model::description& model,
                       const cluster_plan& plan, const std::vector<expected_speed>& expected,
                       const machines& known) {
  const bool is_one = models_of_pipelines(config).size() <= 1;
  auto text = is_one ? std::string() : fmt::format("pipeline {}: ", plan.pipeline);
  text += fmt::format("{}: {} ({}, {}, {:.0f} M parameters, {} layers)\n", config.model.name,
                      model.name, model.architecture, model.file_type,
                      static_cast<double>(model.parameter_count) / 1e6, model.layer_count);
  text += fmt::format("  {:<9} {:<8} {:<9} {:>12} {:>8} {:>12} {:>12}\n", "shard", "node", "device",
                      "layers", "threads", "weights", "KV cache");
  for (const auto& s : plan.shards) {
    auto layers = fmt::format("{}{}-{}{}", s.layers.has_embedding ? "embed " : "", s.layers.first,
                              s.layers.end() - 1, s.layers.has_head ? " head" : "");
    text +=
        fmt::format("  {:<9} {:<8} {:<9} {:>12} {:>8} {:>12} {:>12}{}\n", s.name, s.on, s.device,
                    layers, s.threads, human_bytes(held_bytes_of(config.model, model, s)),
                    human_bytes(s.kv_bytes), part_of(plan, s));
  }
  if (config.has_default_layout)
    text += fmt::format("  layout: {}{} of every physical core, for no [[nodes]] are named\n",
                        plan.stages == 1 ? "one stage" : fmt::format("{} stages", plan.stages),
                        plan.width == 1 ? "" : fmt::format(" of {} ranks", plan.width));
  text += fmt::format(
      "  KV cache: {} blocks of {} positions = {} tokens; context {}; up to {} sequences at once\n",
      plan.blocks, plan.block_positions, std::uint64_t{plan.blocks} * plan.block_positions,
      plan.max_model_len,
      plan.state_slots == 0 ? config.model.max_num_seqs
                            : std::min(config.model.max_num_seqs, plan.state_slots / 2));
  if (plan.state_slots > 0)
    text += fmt::format("  recurrent states: {} of {} in the memory of the KV cache; a sequence "
                        "that runs holds two\n",
                        plan.state_slots, human_bytes(model.state_bytes(0, model.layer_count)));
  if (const auto line = sampling_text(config.model); !line.empty())
    text += fmt::format("  sampling defaults: {}\n", line);
  text += scarcity(config, plan);
  text += cost_of(config.model.kv_cache_dtype);
  text += meetings_over_bus(plan);
  if (plan.swap_blocks > 0)
    text += fmt::format("  swap space: {} blocks = {} tokens of preempted sequences, in {}\n",
                        plan.swap_blocks, std::uint64_t{plan.swap_blocks} * plan.block_positions,
                        config.run_dir.string());
  text += speeds(expected);
  return text + plan_picture(plan, model, known);
}

nlohmann::ordered_json plan_json(const cluster_config& config, const model::description& model,
                                 const cluster_plan& plan,
                                 const std::vector<expected_speed>& expected,
                                 const machines& known) {
  nlohmann::ordered_json json{{"pipeline", plan.pipeline},
                              {"model", config.model.name},
                              {"architecture", model.architecture},
                              {"file_type", model.file_type},
                              {"parameters", model.parameter_count},
                              {"stages", plan.stages},
                              {"tensor_parallel_size", plan.width},
                              {"kv_cache_dtype", cpu::name_of(config.model.kv_cache_dtype)},
                              {"kv_blocks", plan.blocks},
                              {"kv_block_positions", plan.block_positions},
                              {"swap_blocks", plan.swap_blocks},
                              {"state_slots", plan.state_slots},
                              {"max_model_len", plan.max_model_len},
                              {"max_num_seqs", config.model.max_num_seqs},
                              {"sampling", sampling_json(sampling_of(config.model))},
                              {"shards", nlohmann::ordered_json::array()}};
  for (const auto& s : plan.shards)
    json["shards"].push_back({{"name", s.name},
                              {"node", s.on},
                              {"device", s.device},
                              {"stage", s.stage},
                              {"rank", s.rank},
                              {"first_layer", s.layers.first},
                              {"layers", s.layers.count},
                              {"heads", s.slice().heads.count},
                              {"kv_heads", s.slice().kv_heads.count},
                              {"ffn_rows", s.slice().ffn.count},
                              {"threads", s.threads},
                              {"weight_bytes", held_bytes_of(config.model, model, s)},
                              {"kv_bytes", s.kv_bytes}});
  for (const auto& e : expected)
    json["expected"].push_back(
        {{"streams", e.streams}, {"tokens_per_second", std::round(e.tokens_per_second * 10) / 10}});
  if (!known.empty())
    json["machines"] = machines_json(known);
  return json;
}

} // namespace baton::cluster
