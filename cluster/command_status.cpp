// `cluster status`: asks the root over the bus, as any process of the cluster would.
#include "cluster/commands.hpp"
#include "cluster/root_client.hpp"
#include "gateway/board.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <thread>

namespace baton::cluster {
namespace {

std::string status_table(const cluster_status& s) {
  auto text = fmt::format("{}  {}{}  {}\n", s.model, gateway::name_of(s.phase),
                          s.reason.empty() ? "" : " (" + s.reason + ")", s.url);
  text += fmt::format("  {:<12} {:<11} {:>8} {:>9}  {}\n", "process", "phase", "pid", "restarts",
                      "reason");
  if (s.generation > 0 || !s.change.empty())
    text += fmt::format("  generation {}{}\n", s.generation,
                        s.change.empty() ? "" : " (" + s.change + ")");
  for (const auto& n : s.nodes)
    text += fmt::format("  {:<12} {:<11} {:>8} {:>9}  {}\n", n.name, gateway::name_of(n.phase),
                        n.pid, n.restarts, n.reason);
  if (!s.load)
    return text;
  const load_report& l = *s.load;
  text += fmt::format("  running {}  waiting {}  KV blocks {}/{}  steps {}  recoveries {}  "
                      "max_batch_total_tokens {}\n",
                      l.running, l.waiting, l.blocks_used, l.blocks_total, l.steps, l.recoveries,
                      l.max_batch_total_tokens);
  if (l.swap_blocks_total > 0)
    text += fmt::format("  swapped {}  swap blocks {}/{}\n", l.swapped, l.swap_blocks_used,
                        l.swap_blocks_total);
  return text;
}

std::string status_json(const cluster_status& s) {
  nlohmann::ordered_json json{{"phase", gateway::name_of(s.phase)},
                              {"reason", s.reason},
                              {"url", s.url},
                              {"model", s.model},
                              {"generation", s.generation},
                              {"coming_generation", s.coming_generation},
                              {"change", s.change},
                              {"processes", nlohmann::ordered_json::array()}};
  for (const auto& n : s.nodes)
    json["processes"].push_back({{"name", n.name},
                                 {"phase", gateway::name_of(n.phase)},
                                 {"reason", n.reason},
                                 {"pid", n.pid},
                                 {"epoch", n.epoch.value},
                                 {"restarts", n.restarts}});
  if (s.load)
    json["load"] = {{"running", s.load->running},
                    {"waiting", s.load->waiting},
                    {"kv_blocks_used", s.load->blocks_used},
                    {"kv_blocks", s.load->blocks_total},
                    {"max_batch_total_tokens", s.load->max_batch_total_tokens},
                    {"swapped", s.load->swapped},
                    {"swap_blocks_used", s.load->swap_blocks_used},
                    {"swap_blocks", s.load->swap_blocks_total},
                    {"steps", s.load->steps},
                    {"recoveries", s.load->recoveries},
                    {"recovery_seconds", s.load->recovery_seconds},
                    {"bubble_ratio", s.load->bubble_ratio}};
  return json.dump() + "\n";
}

} // namespace

int command_status(const std::string& which, bool json, bool watch) {
  auto dir = find_cluster(which);
  if (!dir || dir->alive().empty()) {
    std::fprintf(stderr, "%s\n", dir ? "not running" : dir.error().message.c_str());
    return exit_not_running;
  }
  for (;;) {
    auto s = ask_status(*dir);
    if (!s) {
      std::fprintf(stderr, "error: %s\n", s.error().message.c_str());
      return 1;
    }
    auto text = json ? status_json(*s) : (watch ? "\033[H\033[2J" : "") + status_table(*s);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    if (!watch)
      return s->phase == phase::ready ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

} // namespace baton::cluster
