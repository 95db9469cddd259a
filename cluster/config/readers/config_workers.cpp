#include "cluster/config/readers/config_workers.hpp"

#include "cluster/config/readers/config_devices.hpp"
#include "cluster/config/readers/config_error.hpp"
#include "cluster/config/readers/config_tensors.hpp"
#include "cluster/config/readers/triton_config.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>

namespace baton::cluster {
namespace {

constexpr double seconds_max = 86400;
constexpr std::array parallel_types{parallel_type::none, parallel_type::pp, parallel_type::tp,
                                    parallel_type::pptp, parallel_type::custom};

// Absent keys keep their value in `policy`.
void read_policy(toml_section& s, const std::string& path, const std::string& origin,
                 schedule::queue_policy& policy, std::optional<error>& wrong) {
  std::string action = policy.is_delayed ? "delay" : "reject";
  s.read_seconds("queue_timeout", policy.timeout, 0, seconds_max);
  s.read("queue_timeout_action", action);
  s.read("allow_timeout_override", policy.allow_timeout_override);
  if (action != "reject" && action != "delay" && !wrong)
    wrong = bad_key(origin, path + ".queue_timeout_action",
                    "{}.queue_timeout_action must be \"reject\" or \"delay\", not \"{}\"", path,
                    action);
  policy.is_delayed = action == "delay";
}

result<void> read_preferred(const toml::node* node, const std::string& path,
                            const std::string& origin, worker_config& w) {
  if (!node)
    return {};
  const auto key = path + ".preferred_batch_size";
  const auto* array = node->as_array();
  for (std::size_t i = 0; array && i < array->size(); ++i) {
    const auto size = array->get(i)->value_exact<std::int64_t>();
    if (!size || *size < 1 || *size > w.batch_size) {
      array = nullptr;
      break;
    }
    w.preferred_batch_size.push_back(static_cast<std::uint32_t>(*size));
  }
  if (!array || w.preferred_batch_size.size() > limits::batch_items_max)
    return bad_key(origin, key, "{} must be integers between 1 and batch_size, which is {}", key,
                   w.batch_size);
  std::sort(w.preferred_batch_size.begin(), w.preferred_batch_size.end());
  return {};
}

result<void> read_level(const toml::table* table, const std::string& path,
                        const std::string& origin, worker_config& w) {
  std::uint32_t level = 0;
  auto policy = w.queue_policy;
  std::optional<error> wrong;
  toml_section s(table, path, origin);
  s.read("level", level, 1, schedule::priority_levels_max);
  read_policy(s, path, origin, policy, wrong);
  s.read("max_queue_size", policy.max_queue_size, 0, worker_queued_max);
  if (auto ok = s.finish(); !ok)
    return ok;
  if (wrong)
    return *std::move(wrong);
  if (level == 0 || level > w.priority_levels)
    return bad_key(origin, path + ".level", "{}.level must be one of the {} priority_levels", path,
                   w.priority_levels);
  if (!w.priority_queue_policy.emplace(level, policy).second)
    return bad_key(origin, path + ".level", "{}.level: {} has a policy already", path, level);
  return {};
}

result<void> read_levels(const toml::node* node, const std::string& path, const std::string& origin,
                         worker_config& w) {
  if (!node)
    return {};
  const auto key = path + ".priority_queue_policy";
  const auto* array = node->as_array();
  if (!array)
    return bad_key(origin, key, "{} must be tables: [{{ level = 1, queue_timeout = 0.5 }}]", key);
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto at = fmt::format("{}[{}]", key, i);
    const auto* table = array->get(i)->as_table();
    if (!table)
      return bad_key(origin, at, "{} must be a table", at);
    if (auto ok = read_level(table, at, origin, w); !ok)
      return ok;
  }
  return {};
}

// "latest 2", "all", "specific 1 3".
std::optional<gateway::version_policy> version_policy_of(const std::string& text) {
  std::istringstream words(text);
  std::string kind, word;
  std::vector<std::uint32_t> numbers;
  words >> kind;
  while (words >> word) {
    std::uint32_t number = 0;
    const auto* last = word.data() + word.size();
    const auto read = std::from_chars(word.data(), last, number);
    if (read.ec != std::errc() || read.ptr != last)
      return std::nullopt;
    numbers.push_back(number);
  }
  if (kind == "all" && numbers.empty())
    return gateway::version_policy{0, true, {}};
  if (kind == "latest" && numbers.size() == 1 && numbers.front() > 0)
    return gateway::version_policy{numbers.front(), false, {}};
  if (kind == "specific" && !numbers.empty())
    return gateway::version_policy{0, false, std::move(numbers)};
  return std::nullopt;
}

// A group needs a level; a single process without parallel_type must not have one.
result<void> read_parallel(const std::string& type, const std::string& path,
                           const std::string& origin, worker_config& w) {
  const auto is = std::find_if(parallel_types.begin(), parallel_types.end(),
                               [&](parallel_type t) { return name_of(t) == type; });
  if (is == parallel_types.end())
    return bad_key(origin, path + ".parallel_type",
                   "{}.parallel_type must be \"pp\", \"tp\", \"pptp\" or \"custom\", not \"{}\"",
                   path, type);
  w.parallel = *is;
  if (w.parallel == parallel_type::none && w.parallel_level > 0)
    return bad_key(origin, path + ".parallel_type",
                   "{}.parallel_type is missing: what are the {} of parallel_level to share?", path,
                   w.parallel_level);
  if (w.parallel != parallel_type::none && w.parallel_level == 0)
    return bad_key(origin, path + ".parallel_level",
                   "{}.parallel_level is missing: how many {} has a worker?", path,
                   w.is_group() ? "processes" : "devices");
  return {};
}

// Rejects contradictory settings, with Triton's rules.
result<void> check_queue(const worker_config& w, const std::string& path,
                         const std::string& origin) {
  const auto is_level =
      w.default_priority_level >= 1 && w.default_priority_level <= w.priority_levels;
  if (w.priority_levels > 0 ? !is_level : w.default_priority_level > 0)
    return bad_key(origin, path + ".default_priority_level",
                   "{}.default_priority_level must be one of the {} priority_levels", path,
                   w.priority_levels);
  const auto delays = [](const auto& of) { return of.second.is_delayed; };
  if (w.preserve_ordering &&
      (w.priority_levels > 1 || w.queue_policy.is_delayed ||
       std::any_of(w.priority_queue_policy.begin(), w.priority_queue_policy.end(), delays)))
    return bad_key(origin, path + ".preserve_ordering",
                   "{}.preserve_ordering excludes several priority_levels, and "
                   "queue_timeout_action = \"delay\"",
                   path);
  return {};
}

result<void> check_identity(const worker_config& w, const std::string& path,
                            const std::string& origin) {
  if (!is_name(w.name))
    return bad_key(origin, path + ".name", "{}.name must be 1 to 64 of [A-Za-z0-9._-]", path);
  if (!is_name(w.platform))
    return bad_key(origin, path + ".platform", "{}.platform must be 1 to 64 of [A-Za-z0-9._-]",
                   path);
  if (!is_name(w.version))
    return bad_key(origin, path + ".version", "{}.version must be 1 to 64 of [A-Za-z0-9._-]", path);
  if (w.command.empty() || w.command.front().empty())
    return bad_key(origin, path + ".command",
                   "{}.command is missing: the program and its arguments, for example "
                   "[\"python3\", \"-m\", \"baton_worker\", \"handler.py\"]",
                   path);
  return {};
}

result<worker_config> read_worker(const toml::table* table, const std::string& path,
                                  const std::string& origin) {
  worker_config w;
  std::optional<error> wrong;
  toml_section s(table, path, origin);
  s.read("name", w.name);
  s.read("version", w.version);
  s.read("command", w.command);
  s.read("count", w.count, 1, workers_of_cluster_max);
  std::string parallel;
  s.read("parallel_type", parallel);
  s.read("parallel_level", w.parallel_level, 1, parallel_level_max);
  std::string device_type = "auto";
  s.read("device_type", device_type);
  const auto* device_ids = s.take("device_ids");
  s.read("omp_num_threads", w.omp_num_threads, 1, omp_threads_max);
  s.read("batch_size", w.batch_size, 1, limits::batch_items_max);
  s.read_seconds("max_batch_delay", w.max_batch_delay, 0, seconds_max);
  const auto* preferred = s.take("preferred_batch_size");
  s.read("preserve_ordering", w.preserve_ordering);
  s.read("max_queued", w.max_queued, 1, worker_queued_max);
  s.read("priority_levels", w.priority_levels, 0, schedule::priority_levels_max);
  s.read("default_priority_level", w.default_priority_level, 0, schedule::priority_levels_max);
  read_policy(s, path, origin, w.queue_policy, wrong);
  const auto* levels = s.take("priority_queue_policy");
  s.read_seconds("response_timeout", w.response_timeout, 0.1, seconds_max);
  s.read_seconds("startup_timeout", w.startup_timeout, 0.1, seconds_max);
  s.read("use_job_ticket", w.use_job_ticket);
  s.read("platform", w.platform);
  s.read("max_batch_size", w.max_batch_size, 0, worker_max_batch_size);
  s.read("decoupled", w.decoupled);
  std::string versions = "latest 1";
  s.read("version_policy", versions);
  s.read("triton_config", w.triton_config);
  const auto* inputs = s.take("inputs");
  const auto* outputs = s.take("outputs");
  if (auto ok = s.finish(); !ok)
    return ok.error();
  if (auto ok = read_tensors(inputs, path + ".inputs", origin, w.inputs); !ok)
    return ok.error();
  if (auto ok = read_tensors(outputs, path + ".outputs", origin, w.outputs); !ok)
    return ok.error();
  if (wrong)
    return *std::move(wrong);
  const auto policy = version_policy_of(versions);
  if (!policy)
    return bad_key(
        origin, path + ".version_policy",
        "{}.version_policy must be \"latest NUMBER\", \"all\" or \"specific NUMBER ...\", "
        "not \"{}\"",
        path, versions);
  w.version_policy = *policy;
  if (auto ok = read_parallel(parallel, path, origin, w); !ok)
    return ok.error();
  if (auto ok = read_worker_devices(device_type, device_ids, path, origin, w); !ok)
    return ok.error();
  if (auto ok = read_preferred(preferred, path, origin, w); !ok)
    return ok.error();
  if (auto ok = read_levels(levels, path, origin, w); !ok)
    return ok.error();
  if (auto ok = check_queue(w, path, origin); !ok)
    return ok.error();
  if (auto ok = check_identity(w, path, origin); !ok)
    return ok.error();
  if (auto ok = w.triton_config.empty() ? result<void>() : check_triton_config(w.triton_config);
      !ok)
    return bad_key(origin, path + ".triton_config", "{}.triton_config: {}", path,
                   ok.error().message);
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
    return bad_key(origin, "workers", "workers must be tables: [[workers]]");
  std::set<std::string> names;
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto path = fmt::format("workers[{}]", i);
    const auto* table = array->get(i)->as_table();
    if (!table)
      return bad_key(origin, path, "{} must be a table", path);
    auto worker = read_worker(table, path, origin);
    if (!worker)
      return worker.error();
    if (!names.insert(worker->name).second || is_served(config, worker->name))
      return bad_key(origin, path + ".name", "two models are named '{}'", worker->name);
    if (worker->count < config.gateway.processes)
      return bad_key(
          origin, path + ".count",
          "{}.count is {}: each of the {} gateways (gateway.processes) needs one of its own", path,
          worker->count, config.gateway.processes);
    all += worker->count;
    config.workers.push_back(*std::move(worker));
  }
  if (all > workers_of_cluster_max)
    return bad_key(origin, "workers.count", "{} workers in all, a cluster has at most {}", all,
                   workers_of_cluster_max);
  return {};
}

result<worker_config> parse_worker(std::string_view text, const std::string& origin) {
  const auto root = parse_toml(text, origin);
  if (!root)
    return root.error();
  cluster_config alone;
  if (auto ok = read_workers(root->get("workers"), origin, alone); !ok)
    return ok.error();
  if (alone.workers.size() != 1)
    return fail(errc::bad_config, "{}: {} [[workers]] tables in place of one", origin,
                alone.workers.size());
  return std::move(alone.workers.front());
}

} // namespace baton::cluster
