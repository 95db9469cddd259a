// `cluster status`: asks the root over the bus, as any process of the cluster would.
#include "cluster/commands/commands.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/files/stable_name.hpp"
#include "cluster/roles/root/root_client.hpp"
#include "gateway/base/model_loads_json.hpp"
#include "gateway/state/gateway_state.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>

namespace baton::cluster {
namespace {

std::string load_lines(const load_report& l) {
  auto text = fmt::format("  running {}  waiting {}  KV blocks {}/{}  steps {}  recoveries {}  "
                          "max_batch_total_tokens {}\n",
                          l.running, l.waiting, l.blocks_used, l.blocks_total, l.steps,
                          l.recoveries, l.max_batch_total_tokens);
  if (l.swap_blocks_total > 0)
    text += fmt::format("  swapped {}  swap blocks {}/{}\n", l.swapped, l.swap_blocks_used,
                        l.swap_blocks_total);
  if (l.state_slots_total > 0)
    text += fmt::format("  state slots {}/{}\n", l.state_slots_used, l.state_slots_total);
  return text;
}

std::string generation_of(std::uint32_t generation, const std::string& change) {
  return fmt::format("generation {}{}", generation, change.empty() ? "" : " (" + change + ")");
}

// One line for each pipeline; a single one needs none beside the table.
std::string pipeline_lines(const cluster_status& s) {
  std::string text;
  for (std::size_t i = 0; i < s.pipelines.size(); ++i) {
    const auto& p = s.pipelines[i];
    text +=
        fmt::format("  pipeline {}  {}  {}\n", i, p.model, generation_of(p.generation, p.change));
    if (p.load)
      text += "  " + load_lines(*p.load);
  }
  return text;
}

std::string of_period(const std::optional<supervision>& by) {
  if (!by || by->restarts_max == 0)
    return "";
  return fmt::format("{} of {} in {} s", by->restarts_recent, by->restarts_max, by->period_seconds);
}

// The devices of workers, by process name.
using worker_devices = std::map<std::string, std::string>;

worker_devices recorded_devices(const cluster_status& s, const run_dir& dir) {
  worker_devices all;
  for (const auto& n : s.nodes)
    if (auto device = dir.recorded_device(n.name); !device.empty())
      all.emplace(n.name, std::move(device));
  return all;
}

std::string device_column(const worker_devices& devices, const std::string& text) {
  std::size_t width = std::string_view("device").size();
  for (const auto& [name, device] : devices)
    width = std::max(width, device.size());
  return devices.empty() ? std::string() : fmt::format("{:<{}}  ", text, width);
}

std::string device_column_of(const worker_devices& devices, const std::string& name) {
  const auto at = devices.find(name);
  return device_column(devices, at == devices.end() ? std::string() : at->second);
}

// The supervisor's children and their descendants, indented. Processes without a reported
// supervisor are the root's.
void add_children(std::string& text, const cluster_status& s, const worker_devices& devices,
                  const std::string& supervisor, std::size_t depth) {
  for (const auto& n : s.nodes) {
    if ((n.supervision ? n.supervision->by : root_name.name) != supervisor)
      continue;
    text += fmt::format("  {:<16} {:<11} {:>8} {:>9}  {:<14} {}{}\n",
                        std::string(2 * depth, ' ') + n.name, gateway::name_of(n.phase), n.pid,
                        n.restarts, of_period(n.supervision), device_column_of(devices, n.name),
                        n.reason);
    if (n.name != supervisor)
      add_children(text, s, devices, n.name, depth + 1);
  }
}

// Each supervisor with its strategy.
std::string strategies(const cluster_status& s) {
  std::map<std::string, std::string_view> all;
  for (const auto& n : s.nodes)
    if (n.supervision)
      all.emplace(n.supervision->by,
                  restart_strategy_names.at(static_cast<std::size_t>(n.supervision->strategy)));
  std::string text;
  for (const auto& [name, strategy] : all)
    text += fmt::format("{}{}: {}", text.empty() ? "  supervisors  " : ", ", name, strategy);
  return text.empty() ? text : text + "\n";
}

std::string status_table(const cluster_status& s, const worker_devices& devices) {
  auto text =
      fmt::format("{}  {}{}  {}\n", s.pipelines.empty() ? "worker models" : s.model,
                  gateway::name_of(s.phase), s.reason.empty() ? "" : " (" + s.reason + ")", s.url);
  text += fmt::format("  {:<16} {:<11} {:>8} {:>9}  {:<14} {}{}\n", "process", "phase", "pid",
                      "restarts", "of late", device_column(devices, "device"), "reason");
  const bool is_one = s.pipelines.size() <= 1;
  if (is_one && (s.generation > 0 || !s.change.empty()))
    text += fmt::format("  {}\n", generation_of(s.generation, s.change));
  add_children(text, s, devices, root_name.name, 0);
  text += strategies(s);
  if (!is_one)
    return text + pipeline_lines(s);
  return s.load ? text + load_lines(*s.load) : text;
}

nlohmann::ordered_json load_json(const load_report& l) {
  return {{"running", l.running},
          {"waiting", l.waiting},
          {"kv_blocks_used", l.blocks_used},
          {"kv_blocks", l.blocks_total},
          {"max_batch_total_tokens", l.max_batch_total_tokens},
          {"swapped", l.swapped},
          {"swap_blocks_used", l.swap_blocks_used},
          {"swap_blocks", l.swap_blocks_total},
          {"state_slots_used", l.state_slots_used},
          {"state_slots", l.state_slots_total},
          {"steps", l.steps},
          {"recoveries", l.recoveries},
          {"recovery_seconds", l.recovery_seconds},
          {"bubble_ratio", l.bubble_ratio}};
}

nlohmann::ordered_json supervision_json(const std::optional<supervision>& by) {
  if (!by)
    return nullptr;
  return {{"by", by->by},
          {"strategy", restart_strategy_names.at(static_cast<std::size_t>(by->strategy))},
          {"restarts_max", by->restarts_max},
          {"period_seconds", by->period_seconds},
          {"restarts_recent", by->restarts_recent},
          {"has_given_up", by->has_given_up}};
}

std::string status_json(const cluster_status& s, const worker_devices& devices) {
  nlohmann::ordered_json json{{"phase", gateway::name_of(s.phase)},
                              {"reason", s.reason},
                              {"url", s.url},
                              {"model", s.model},
                              {"generation", s.generation},
                              {"coming_generation", s.coming_generation},
                              {"change", s.change},
                              {"processes", nlohmann::ordered_json::array()}};
  for (const auto& n : s.nodes) {
    json["processes"].push_back({{"name", n.name},
                                 {"phase", gateway::name_of(n.phase)},
                                 {"reason", n.reason},
                                 {"pid", n.pid},
                                 {"epoch", n.incarnation.value},
                                 {"restarts", n.restarts},
                                 {"supervision", supervision_json(n.supervision)}});
    if (const auto at = devices.find(n.name); at != devices.end())
      json["processes"].back()["device"] = at->second;
  }
  if (s.load)
    json["load"] = load_json(*s.load);
  json["pipelines"] = nlohmann::ordered_json::array();
  for (const auto& p : s.pipelines) {
    json["pipelines"].push_back({{"model", p.model},
                                 {"generation", p.generation},
                                 {"coming_generation", p.coming_generation},
                                 {"change", p.change}});
    if (p.load)
      json["pipelines"].back()["load"] = load_json(*p.load);
    if (p.on_demand)
      json["pipelines"].back()["on_demand"] = gateway::model_loads_json(*p.on_demand);
  }
  return json_text(json) + "\n";
}

} // namespace

int command_ps(bool json) {
  auto all = nlohmann::ordered_json::array();
  std::string table = fmt::format("{:<24} {:<24} {:<11} {}\n", "CLUSTER", "MODELS", "PHASE", "URL");
  for (const auto& c : running_clusters_here()) {
    const auto s = ask_status(c.dir);
    std::vector<std::string> models;
    for (const auto& p : s ? s->pipelines : std::vector<pipeline_status>())
      if (std::find(models.begin(), models.end(), p.model) == models.end())
        models.push_back(p.model);
    const auto phase = s ? std::string(gateway::name_of(s->phase)) : "no answer";
    const auto url = s ? s->url : std::string();
    table += fmt::format("{:<24} {:<24} {:<11} {}\n", c.name, fmt::join(models, ","), phase, url);
    all.push_back({{"name", c.name}, {"models", models}, {"phase", phase}, {"url", url}});
  }
  std::fputs(json ? (json_text(all) + "\n").c_str() : table.c_str(), stdout);
  return 0;
}

int command_status(const std::string& which, bool json, bool watch) {
  const auto found = find_cluster(which);
  if (!found)
    return refuse_search(found.error());
  for (;;) {
    auto s = ask_status(found->dir);
    if (!s) {
      std::fprintf(stderr, "error: %s\n", s.error().message.c_str());
      return 1;
    }
    const auto devices = recorded_devices(*s, found->dir);
    auto text = json ? status_json(*s, devices)
                     : (watch ? "\033[H\033[2J" : "") + status_table(*s, devices);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    if (!watch)
      return s->phase == phase::ready ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

} // namespace baton::cluster
