#include "cluster/models/store_models.hpp"

#include "cluster/config/readers/config_workers.hpp"
#include "cluster/models/torchserve/torchserve_worker.hpp"
#include "schema/digest.hpp"
#include "schema/limits.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

using number = std::optional<std::uint32_t>;

constexpr std::uint32_t startup_seconds_max = 86400; // of a [[workers]] table

number first_of(const number& a, const number& b, const number& c = {}) {
  return a ? a : b ? b : c;
}

bool installs(const model_archive& archive, const store_config& store) {
  return store.install_py_dep_per_model && !archive.requirements.empty();
}

std::vector<std::string> command_of(const model_archive& archive, const std::string& handler,
                                    const store_config& store) {
  std::vector<std::string> words{"python3", "-m", "baton_worker.torchserve",
                                 std::filesystem::absolute(archive.path).string()};
  if (!handler.empty()) {
    words.emplace_back("--handler");
    words.push_back(handler);
  }
  if (installs(archive, store))
    words.push_back(fmt::format("--install-requirements={}", store.install_timeout));
  return words;
}

} // namespace

model_settings configured_of(const model_archive& archive, const store_config& store) {
  for (const auto& one : store.models)
    if (one.model == archive.model && one.version == archive.version)
      return one.settings;
  return {};
}

result<stored_model> model_of_archive(const model_archive& archive, const std::string& name,
                                      const model_settings& requested, const store_config& store,
                                      std::uint32_t workers) {
  auto own = read_torchserve_settings(archive.settings);
  if (!own)
    return fail(errc::bad_config, "its model-config.yaml: {}", own.error().message);
  if (archive.handler.empty() && requested.handler.empty())
    return fail(errc::bad_config, "its manifest names no handler");
  const auto configured = configured_of(archive, store);
  torchserve_worker w;
  w.name = name.empty() ? archive.model : name;
  w.version = archive.version;
  w.command = command_of(archive, requested.handler, store);
  w.settings.workers = first_of(requested.workers_min, own->workers, workers);
  w.settings.batch_size = first_of(own->batch_size, requested.batch_size, configured.batch_size);
  w.settings.max_batch_delay =
      first_of(own->max_batch_delay, requested.max_batch_delay, configured.max_batch_delay);
  w.settings.response_timeout =
      first_of(own->response_timeout, requested.response_timeout,
               first_of(configured.response_timeout, store.default_response_timeout));
  w.settings.startup_timeout =
      first_of(own->startup_timeout, requested.startup_timeout,
               first_of(configured.startup_timeout, store.default_startup_timeout));
  if (installs(archive, store)) // the first worker installs, and the others wait for it
    w.settings.startup_timeout =
        std::min(*w.settings.startup_timeout + store.install_timeout, startup_seconds_max);
  w.settings.job_queue_size = first_of(own->job_queue_size, store.job_queue_size);
  w.settings.use_job_ticket = own->use_job_ticket;
  w.settings.parallel = own->parallel;
  w.settings.parallel_level = own->parallel_level;
  w.settings.omp_num_threads = own->omp_num_threads;
  w.settings.device_type = own->device_type;
  w.settings.device_ids = own->device_ids;
  stored_model out;
  out.name = w.name;
  auto& v = out.version;
  v.version = w.version;
  v.workers = *w.settings.workers;
  v.archive = archive.url.empty() ? archive.path.filename().string() : archive.url;
  v.table = worker_table(w);
  v.digest = digest_behind(archive.digest, v.table);
  v.notes = archive.notes;
  for (const auto& n : own->notes)
    v.notes.push_back(fmt::format("{}: {}", w.name, n));
  if (*v.workers > workers_of_cluster_max)
    return fail_param(errc::invalid_value, "initial_workers",
                      "initial_workers is {}, a cluster has at most {}", *v.workers,
                      workers_of_cluster_max);
  auto read = parse_worker(v.table, w.name);
  if (!read)
    return fail(errc::invalid_value, "{}", read.error().message);
  if (v.table.size() > limits::model_config_bytes_max)
    return fail(errc::bad_config, "its configuration has {} bytes, at most {} are allowed",
                v.table.size(), limits::model_config_bytes_max);
  v.worker = *std::move(read);
  return out;
}

} // namespace baton::cluster
