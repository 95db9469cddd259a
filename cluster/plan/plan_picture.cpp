#include "cluster/plan/plan_picture.hpp"

#include "cluster/machines/machine_links.hpp"
#include "cluster/plan/addresses.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace baton::cluster {
namespace {

std::string name_of(const std::string& machine) {
  return machine == root_machine ? "this machine" : "node " + machine;
}

// "[....######....]": the range of layers.
std::string bar_of(const model::layer_range& layers, std::uint32_t layer_count) {
  constexpr std::uint32_t columns_max = 40;
  const auto columns = std::min(layer_count, columns_max);
  const auto column = [&](std::uint32_t layer) { return layer * columns / layer_count; };
  std::string bar(columns, '.');
  // A small stage among many layers stays visible.
  const auto first = std::min(column(layers.first), columns - 1);
  const auto end = std::clamp(column(layers.end()), first + 1, columns);
  std::fill(bar.begin() + first, bar.begin() + end, '#');
  return "[" + bar + "]";
}

// "shard-2 + shard-3 on b".
std::string shards_of(const cluster_plan& plan, stage_index stage) {
  std::string names, nodes, last;
  for (const auto& s : plan.shards) {
    if (s.stage != stage)
      continue;
    names += (names.empty() ? "" : " + ") + s.name;
    if (std::exchange(last, s.on) != s.on) // ranks of one node are adjacent
      nodes += (nodes.empty() ? "" : ", ") + s.on;
  }
  return names + " on " + nodes;
}

} // namespace

std::string machines_text(const machines& known) {
  std::string text;
  for (const auto& [name, facts] : known) {
    const auto cores = facts.physical_cores().size();
    text += fmt::format("  {}: {} core{}, {} free", name_of(name), cores, cores == 1 ? "" : "s",
                        human_bytes(facts.memory_available_bytes));
    if (facts.reads.is_known())
      text += fmt::format(", reads {:.1f} GB/s ({:.1f} by one thread)", facts.reads.all_cores,
                          facts.reads.one_thread);
    if (name != root_machine && facts.link.is_known())
      text += fmt::format(", link {:.2f} ms round trip, {:.0f} MB/s",
                          facts.link.round_trip_seconds * 1e3, facts.link.bytes_per_second / 1e6);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json machines_json(const machines& known) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& [name, facts] : known) {
    nlohmann::ordered_json one;
    one["node"] = nullptr; // the machine of `cluster up`
    if (name != root_machine)
      one["node"] = name;
    one["cores"] = facts.physical_cores().size();
    one["memory_available_bytes"] = facts.memory_available_bytes;
    if (facts.reads.is_known())
      one["read_gb_per_second"] = {{"one_thread", facts.reads.one_thread},
                                   {"all_cores", facts.reads.all_cores}};
    if (name != root_machine && facts.link.is_known())
      one["link"] = {{"round_trip_seconds", facts.link.round_trip_seconds},
                     {"bytes_per_second", facts.link.bytes_per_second}};
    all.push_back(std::move(one));
  }
  return all;
}

std::string plan_picture(const cluster_plan& plan, const model::description& model,
                         const machines& known) {
  const auto head = head_name(plan.pipeline).name;
  const auto row_bytes = std::size_t{model.hidden_size} * sizeof(float);
  auto text = fmt::format("  client -> gateway -> {}\n", head);
  std::string at = root_machine;
  // The line above a stage or the end: an arrow, and the delay of a link.
  const auto go = [&](const std::string& to) {
    text += "            |";
    if (const auto seconds = way_seconds(known, at, to, row_bytes); at != to && seconds > 0)
      text += fmt::format("  {:.2f} ms to {}", seconds * 1e3, name_of(to));
    text += "\n";
    at = to;
  };
  for (stage_index stage = 0; stage < plan.stages; ++stage) {
    const auto& first = plan.shards.at(std::size_t{stage} * plan.width);
    go(first.machine);
    text += fmt::format("  stage {:<4}{}  {}\n", stage, bar_of(first.layers, model.layer_count),
                        shards_of(plan, stage));
  }
  go(root_machine);
  return text + fmt::format("  client <- gateway <- {}\n", head);
}

} // namespace baton::cluster
