#include "cluster/models/models_record.hpp"

#include "cluster/config/readers/config_workers.hpp"
#include "cluster/files/json_text.hpp"
#include "cluster/plan/worker_slots.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr std::string_view record_name = "models";

nlohmann::json json_of(const recorded_model& n) {
  const auto& m = n.model;
  auto workers = nlohmann::json::array();
  for (const auto& w : m.workers)
    workers.push_back({{"node", w.process.value}, {"name", w.name}, {"gateway", w.gateway_index}});
  return {{"name", m.name},          {"version", m.version},
          {"revision", m.revision},  {"state", static_cast<int>(m.state)},
          {"reason", m.reason},      {"config", m.config},
          {"digest", n.digest},      {"archive", m.archive},
          {"default", m.is_default}, {"workers", std::move(workers)},
          {"notes", n.notes}};
}

// Nothing if a state is unknown. Throws json::exception if the value is malformed.
std::optional<recorded_model> model_from(const nlohmann::json& from) {
  const auto state = from.at("state").get<int>();
  if (state < static_cast<int>(model_state::loading) ||
      state > static_cast<int>(model_state::unavailable))
    return std::nullopt;
  recorded_model n;
  n.digest = from.at("digest").get<std::uint64_t>();
  auto& m = n.model;
  m.name = from.at("name").get<std::string>();
  m.version = from.at("version").get<std::string>();
  m.revision = from.at("revision").get<std::uint64_t>();
  m.state = static_cast<model_state>(state);
  m.reason = from.at("reason").get<std::string>();
  m.config = from.at("config").get<std::string>();
  m.archive = from.at("archive").get<std::string>();
  m.is_default = from.at("default").get<bool>();
  n.notes = from.at("notes").get<std::vector<std::string>>();
  m.is_of_repository = true;
  for (const auto& w : from.at("workers"))
    m.workers.push_back({process_id{w.at("node").get<std::uint32_t>()},
                         w.at("name").get<std::string>(), w.at("gateway").get<std::uint32_t>()});
  return n;
}

} // namespace

result<void> record_models(const run_dir& dir, const recorded_models& now) {
  auto all = nlohmann::json::array();
  for (const auto& n : now.all)
    all.push_back(json_of(n));
  auto rejected = nlohmann::json::array();
  for (const auto& p : now.rejected)
    rejected.push_back(
        {{"name", p.name}, {"archive", p.archive}, {"why", p.why}, {"revision", p.revision}});
  const nlohmann::json saved{{"last_revision", now.last_revision},
                             {"next_seat", now.next_worker},
                             {"models", all},
                             {"passed_over", std::move(rejected)}};
  return dir.write(record_name, json_text(saved) + "\n");
}

// A malformed note counts as none: another build wrote it, and its cluster is refused elsewhere.
std::optional<recorded_models> read_recorded_models(const cluster_config& config,
                                                    const run_dir& dir) {
  const auto text = dir.read(record_name);
  if (!text)
    return std::nullopt;
  try {
    const auto saved = nlohmann::json::parse(*text);
    recorded_models out{saved.at("last_revision").get<std::uint64_t>(),
                        saved.at("next_seat").get<std::uint32_t>(),
                        {},
                        {}};
    for (const auto& one : saved.at("passed_over"))
      out.rejected.push_back(
          {one.at("name").get<std::string>(), one.at("archive").get<std::string>(),
           one.at("why").get<std::string>(), one.at("revision").get<std::uint64_t>()});
    for (const auto& one : saved.at("models")) {
      auto model = model_from(one);
      if (!model)
        return std::nullopt;
      out.all.push_back(*std::move(model));
    }
    std::erase_if(out.all, [&](const recorded_model& n) {
      return n.model.archive.empty() ? !config.repository : !config.store;
    });
    return out;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

model_registry::options registry_options(const cluster_config& config) {
  model_registry::options how;
  how.gateways = config.gateway.processes;
  // Gateways enforce the drain timeout themselves and report it; this is a later fallback.
  how.drain_max = config.shutdown_timeout + std::chrono::seconds{2};
  if (config.repository) {
    how.control = config.repository->control;
    how.load_models = config.repository->load_models;
  }
  return how;
}

served_models recorded_snapshot(const cluster_config& config, const run_dir& dir) {
  model_registry registry(registry_options(config), config);
  if (const auto left = read_recorded_models(config, dir))
    registry.restore(*left, {});
  return registry.snapshot();
}

result<worker_config> config_of(const cluster_config& config, const served_model& model) {
  if (model.is_of_repository)
    return parse_worker(model.config, model.name);
  const auto at = std::find_if(config.workers.begin(), config.workers.end(),
                               [&](const worker_config& w) { return w.name == model.name; });
  if (at == config.workers.end())
    return fail(errc::not_found, "nodes.toml has no worker model {}", model.name);
  return *at;
}

std::vector<worker_child> workers_of(const cluster_config& config, const served_models& all) {
  std::vector<worker_child> out;
  for (const auto& m : all.all) {
    if (m.workers.empty())
      continue;
    const auto found = config_of(config, m);
    if (!found) {
      spdlog::error("the model {} has no workers: {}", m.name, found.error().message);
      continue;
    }
    for (const auto& w : m.workers)
      out.push_back({w.process, w.name, found->startup_timeout});
  }
  return out;
}

result<worker_post> find_worker(const cluster_config& config, const served_models& all,
                                process_id worker) {
  for (const auto& m : all.all)
    for (const auto& w : m.workers)
      if (w.process == worker) {
        auto of = config_of(config, m);
        return of ? result<worker_post>(worker_post{w, *std::move(of), m.revision}) : of.error();
      }
  return fail(errc::not_found, "no model has a worker {}", process_ids::index_of_worker(worker));
}

namespace {

std::filesystem::path all_files(const run_dir& dir) {
  return dir.path() / "unpacked";
}

} // namespace

std::filesystem::path files_of(const run_dir& dir, std::uint64_t revision) {
  return all_files(dir) / std::to_string(revision);
}

void remove_files_of_others(const run_dir& dir, const std::set<std::uint64_t>& revisions) {
  std::vector<std::filesystem::path> others;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(all_files(dir), ec), end; !ec && it != end;
       it.increment(ec)) {
    const auto name = it->path().stem().string(); // "7", and its lock file "7.lock"
    const bool is_of_one = std::any_of(revisions.begin(), revisions.end(),
                                       [&](std::uint64_t r) { return name == std::to_string(r); });
    if (!is_of_one)
      others.push_back(it->path());
  }
  for (const auto& path : others) {
    std::error_code ignored; // a leftover only costs disk space
    std::filesystem::remove_all(path, ignored);
  }
}

} // namespace baton::cluster
