#include "cluster/plan_workers.hpp"

#include "cluster/config_repository.hpp"

#include <nlohmann/json.hpp>

namespace baton::cluster {
namespace {

std::string batch_of(const worker_config& w) {
  return w.batch_size == 1
             ? std::string("1")
             : fmt::format("{} in {} ms", w.batch_size,
                           std::chrono::duration<double, std::milli>(w.max_batch_delay).count());
}

// "2 of 4 (tp)": workers, ranks of each.
std::string processes_of(const worker_config& w) {
  return w.is_group() ? fmt::format("{} of {} ({})", w.count, w.parallel_level, name_of(w.parallel))
                      : fmt::format("{}", w.count);
}

} // namespace

std::string workers_text(const cluster_config& config) {
  std::string text;
  if (!config.workers.empty())
    text += fmt::format("  {:<20} {:<8} {:>11} {:>14}  {}\n", "worker model", "version",
                        "processes", "batch", "command");
  for (const auto& w : config.workers)
    text += fmt::format("  {:<20} {:<8} {:>11} {:>14}  {}\n", w.name, w.version, processes_of(w),
                        batch_of(w), fmt::join(w.command, " "));
  if (const auto& r = config.repository)
    text += fmt::format("  model repository {} (control_mode {}): a worker model for each of its "
                        "directories\n",
                        r->path.string(), name_of(r->control));
  if (const auto& s = config.store)
    text += fmt::format("  model store {}: a worker model for each archive that is registered\n",
                        s->path.string());
  return text;
}

void add_workers(nlohmann::ordered_json& plan, const cluster_config& config) {
  for (const auto& w : config.workers) {
    nlohmann::ordered_json one{
        {"name", w.name},
        {"version", w.version},
        {"count", w.count},
        {"batch_size", w.batch_size},
        {"max_batch_delay", std::chrono::duration<double>(w.max_batch_delay).count()},
        {"command", w.command}};
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
