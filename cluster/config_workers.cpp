#include "cluster/config_workers.hpp"

#include "schema/limits.hpp"

#include <algorithm>
#include <set>

namespace baton::cluster {
namespace {

template <class... Args>
error bad(const std::string& origin, const std::string& key, fmt::format_string<Args...> text,
          Args&&... args) {
  return fail_param(errc::bad_config, key, "{}: {}", origin,
                    fmt::format(text, std::forward<Args>(args)...));
}

result<worker_config> read_worker(const toml::table* table, const std::string& path,
                                  const std::string& origin) {
  constexpr double seconds_max = 86400;
  worker_config w;
  toml_section s(table, path, origin);
  s.read("name", w.name);
  s.read("version", w.version);
  s.read("command", w.command);
  s.read("count", w.count, 1, workers_of_cluster_max);
  s.read("batch_size", w.batch_size, 1, limits::batch_items_max);
  s.read_seconds("max_batch_delay", w.max_batch_delay, 0, seconds_max);
  s.read("max_queued", w.max_queued, 1, 1 << 20);
  s.read_seconds("response_timeout", w.response_timeout, 0.1, seconds_max);
  s.read_seconds("startup_timeout", w.startup_timeout, 0.1, seconds_max);
  s.read("use_job_ticket", w.use_job_ticket);
  if (auto ok = s.finish(); !ok)
    return ok.error();
  if (!is_name(w.name))
    return bad(origin, path + ".name", "{}.name must be 1 to 64 of [A-Za-z0-9._-]", path);
  if (!is_name(w.version))
    return bad(origin, path + ".version", "{}.version must be 1 to 64 of [A-Za-z0-9._-]", path);
  if (w.command.empty() || w.command.front().empty())
    return bad(origin, path + ".command",
               "{}.command is missing: the program and its arguments, for example "
               "[\"python3\", \"-m\", \"baton_worker\", \"handler.py\"]",
               path);
  return w;
}

bool is_served(const cluster_config& config, const std::string& name) {
  return std::any_of(config.models.begin(), config.models.end(),
                     [&](const model_config& m) { return m.name == name; });
}

} // namespace

result<void> read_workers(const toml::node* node, const std::string& origin,
                          cluster_config& config) {
  if (!node)
    return {};
  const auto* array = node->as_array();
  if (!array)
    return bad(origin, "workers", "workers must be tables: [[workers]]");
  std::set<std::string> names;
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto path = fmt::format("workers[{}]", i);
    const auto* table = array->get(i)->as_table();
    if (!table)
      return bad(origin, path, "{} must be a table", path);
    auto worker = read_worker(table, path, origin);
    if (!worker)
      return worker.error();
    if (!names.insert(worker->name).second || is_served(config, worker->name))
      return bad(origin, path + ".name", "two models are named '{}'", worker->name);
    if (worker->count < config.gateway.processes)
      return bad(origin, path + ".count",
                 "{}.count is {}: each of the {} gateways (gateway.processes) needs one of its own",
                 path, worker->count, config.gateway.processes);
    all += worker->count;
    config.workers.push_back(*std::move(worker));
  }
  if (all > workers_of_cluster_max)
    return bad(origin, "workers.count", "{} workers in all, a cluster has at most {}", all,
               workers_of_cluster_max);
  return {};
}

} // namespace baton::cluster
