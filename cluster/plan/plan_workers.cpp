#include "cluster/plan/plan_workers.hpp"

#include "cluster/config/readers/config_repository.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace baton::cluster {
namespace {

std::string batch_of(const worker_config& w) {
  return w.batch_size == 1
             ? std::string("1")
             : fmt::format("{} in {} ms", w.batch_size,
                           std::chrono::duration<double, std::milli>(w.max_batch_delay).count());
}

// "2 of 4 (tp)": number of workers and ranks per worker.
std::string processes_of(const worker_config& w) {
  return w.is_group() ? fmt::format("{} of {} ({})", w.count, w.parallel_level, name_of(w.parallel))
                      : fmt::format("{}", w.count);
}

// The devices of each worker, by model.
std::vector<std::vector<std::string>> devices_of(const cluster_config& config,
                                                 const machine_gpus& gpus) {
  std::vector<std::vector<std::string>> all;
  std::uint32_t slot = 0;
  for (const auto& w : config.workers) {
    auto& own = all.emplace_back();
    for (std::uint32_t i = 0; i < w.count; ++i) {
      const auto who = position_of(config, slot++, fmt::format("worker-{}-{}", w.name, i));
      const auto device = gpus_of(w, who, gpus);
      own.push_back(device ? device->text() : std::string("missing"));
    }
  }
  return all;
}

// "GPU 0; GPU 1; CPU": without repetition.
std::string shown_devices(const std::vector<std::string>& all) {
  constexpr std::size_t shown_max = 4;
  std::vector<std::string> each;
  for (const auto& one : all)
    if (std::find(each.begin(), each.end(), one) == each.end())
      each.push_back(one);
  const bool is_long = each.size() > shown_max;
  if (is_long)
    each.resize(shown_max);
  return fmt::format("{}{}", fmt::join(each, "; "), is_long ? "; ..." : "");
}

} // namespace

result<void> check_workers(const cluster_config& config, const std::string& file,
                           const machine_gpus& gpus, const machine_cores& cores) {
  if (auto all = gpus_of_workers(config, gpus); !all)
    return fail(all.error().code, "{}: {}", file, all.error().message);
  if (config.launcher.is_enabled)
    if (auto own = launcher_cores(config.launcher, cores); !own)
      return fail(own.error().code, "{}: cluster.cpu_launcher_args: {}", file, own.error().message);
  return {};
}

std::string workers_text(const cluster_config& config, const machine_gpus& gpus) {
  std::string text;
  const auto devices = devices_of(config, gpus);
  std::vector<std::string> shown{"device"};
  std::size_t width = 0;
  for (const auto& own : devices)
    shown.push_back(shown_devices(own));
  for (const auto& one : shown)
    width = std::max(width, one.size());
  if (!config.workers.empty())
    text += fmt::format("  {:<20} {:<8} {:>11} {:>14}  {:<{}}  {}\n", "worker model", "version",
                        "processes", "batch", shown[0], width, "command");
  for (std::size_t i = 0; i < config.workers.size(); ++i) {
    const auto& w = config.workers[i];
    text +=
        fmt::format("  {:<20} {:<8} {:>11} {:>14}  {:<{}}  {}\n", w.name, w.version,
                    processes_of(w), batch_of(w), shown[i + 1], width, fmt::join(w.command, " "));
  }
  if (const auto& r = config.repository)
    text += fmt::format("  model repository {} (control_mode {}): a worker model for each of its "
                        "directories\n",
                        r->path.string(), name_of(r->control));
  if (const auto& s = config.store)
    text += fmt::format("  model store {}: a worker model for each archive that is registered\n",
                        s->path.string());
  return text;
}

void add_workers(nlohmann::ordered_json& plan, const cluster_config& config,
                 const machine_gpus& gpus) {
  const auto devices = devices_of(config, gpus);
  for (std::size_t i = 0; i < config.workers.size(); ++i) {
    const auto& w = config.workers[i];
    nlohmann::ordered_json one{
        {"name", w.name},
        {"version", w.version},
        {"count", w.count},
        {"batch_size", w.batch_size},
        {"max_batch_delay", std::chrono::duration<double>(w.max_batch_delay).count()},
        {"command", w.command},
        {"devices", devices[i]}};
    if (w.parallel != parallel_type::none) {
      one["parallel_type"] = name_of(w.parallel);
      one["parallel_level"] = w.parallel_level;
    }
    plan["workers"].push_back(std::move(one));
  }
  if (const auto& r = config.repository)
    plan["model_repository"] = {{"path", r->path.string()}, {"control_mode", name_of(r->control)}};
  if (const auto& s = config.store)
    plan["model_store"] = {{"path", s->path.string()}};
}

} // namespace baton::cluster
