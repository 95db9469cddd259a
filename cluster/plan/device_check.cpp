#include "cluster/plan/device_check.hpp"

#include "cluster/config/pipelines.hpp"
#include "cluster/machines/worker_cores.hpp"
#include "cluster/plan/plan_workers.hpp"
#include "cluster/process/child.hpp"
#include "runtime/plugin/library.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <set>

namespace baton::cluster {
namespace {

// The answer of `cluster doctor --json`, after anything that a library has printed; empty: none.
std::string answer_in(const std::filesystem::path& log) {
  std::ifstream in(log);
  std::string line, last;
  while (std::getline(in, line)) {
    const auto all = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (all.is_array() && !all.empty() && all[0].is_object())
      last = all[0].value("found", "");
  }
  return last;
}

struct rank_counts {
  std::uint32_t all = 1, on_device = 1;
};

result<void> check_device(const device& where, const std::string& text, rank_counts ranks,
                          const run_dir& dir) {
  const auto log = dir.log("device-check");
  std::error_code ec;
  std::filesystem::remove(log, ec); // drops the answer of an earlier check
  launch what{"/proc/self/exe",
              {"cluster", "doctor", "--json", "--device", text, "--ranks",
               std::to_string(ranks.all), "--ranks-on-device", std::to_string(ranks.on_device)},
              log};
  auto ended = std::make_shared<std::promise<child_end>>();
  child_watch watch;
  const auto pid =
      watch.start(what, [ended](std::int32_t, const child_end& how) { ended->set_value(how); });
  if (!pid)
    return pid.error();
  auto end = ended->get_future();
  if (end.wait_for(device_answer_max) != std::future_status::ready) {
    watch.signal(*pid, SIGKILL);
    return fail(errc::start_failed, "device {} has not answered within {} s: see {}", text,
                device_answer_max.count(), log.string());
  }
  const auto how = end.get();
  if (how.how == child_end::way::exit && how.number == 0)
    return {};
  const auto answer = answer_in(log);
  const auto why = answer.empty() ? fmt::format("{}, see {}", how.text(), log.string()) : answer;
  const std::string_view fix = fix_of(where);
  return fail(errc::start_failed, "device {}: {}{}", text, why,
              fix.empty() ? "" : fmt::format(" ({})", fix));
}

} // namespace

const char* fix_of(const device& where) {
  if (plugin::find_library(where.engine))
    return "";
  return where.engine == "torch" ? "pip install baton-server-cuda; from sources: ./up --gpu"
                                 : "docs/develop/engines.md";
}

std::uint32_t ranks_max(const cluster_config& config) noexcept {
  std::uint32_t most = 1;
  for (const auto& m : config.models)
    most = std::max(most, m.tensor_parallel_size);
  return most;
}

// Ranks of a stage are consecutive devices of their pipeline.
std::uint32_t ranks_on_device(const cluster_config& config, const node_config& node,
                              std::string_view device) {
  const auto models = models_of_pipelines(config);
  std::uint32_t most = 1;
  for (std::uint32_t p = 0; p < models.size(); ++p) {
    std::vector<std::pair<std::string, std::string>> own; // node, device
    const auto add = [&](const node_config& n) {
      for (std::size_t i = 0; i < n.devices.size(); ++i)
        if (n.owner(i) == p)
          own.emplace_back(n.name, n.devices[i]);
    };
    for (const auto& n : config.nodes)
      if (node.waits ? n.name == node.name : !n.waits)
        add(n);
    const std::size_t width = config.models[models[p]].tensor_parallel_size;
    for (std::size_t first = 0; first < own.size(); first += width) {
      const auto end =
          own.begin() + static_cast<std::ptrdiff_t>(std::min(first + width, own.size()));
      const auto here = std::count(own.begin() + static_cast<std::ptrdiff_t>(first), end,
                                   std::pair(node.name, std::string(device)));
      most = std::max(most, static_cast<std::uint32_t>(here));
    }
  }
  return most;
}

result<void> check_devices(const cluster_config& config, const node_config& node,
                           const run_dir& dir) {
  std::set<std::string> seen;
  for (const auto& text : node.devices) {
    const auto where = parse_device(text);
    if (!where || where->is_native() || !seen.insert(text).second)
      continue;
    const rank_counts ranks{ranks_max(config), ranks_on_device(config, node, text)};
    if (auto ok = check_device(*where, text, ranks, dir); !ok)
      return ok.error();
  }
  return {};
}

result<void> check_workers_here(const cluster_config& config, const std::filesystem::path& file) {
  return check_workers(config, file.string(), gpus_for_workers(config, devices_here()),
                       cores_here(config.launcher, facts_of_this_machine()));
}

} // namespace baton::cluster
