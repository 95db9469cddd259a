#include "cluster/roles/files_check.hpp"

#include "cluster/models/model_archive.hpp"
#include "cluster/models/triton/triton_directory.hpp"
#include "cluster/roles/roles.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr std::uint64_t any_memory = 1ull << 50; // more than any machine has

result<void> check_directory(const char* key, const std::filesystem::path& path,
                             const error* failure) {
  std::error_code ec;
  if (!std::filesystem::is_directory(path, ec))
    return fail_param(errc::bad_config, key, "{} = \"{}\": there is no such directory", key,
                      path.string());
  if (failure)
    return fail_param(errc::bad_config, key, "{} = \"{}\": {}", key, path.string(),
                      failure->message);
  return {};
}

result<void> check_directories(const cluster_config& config) {
  if (config.repository) {
    const auto found = read_model_repository(config.repository->path);
    if (auto ok = check_directory("model_repository.path", config.repository->path,
                                  found ? nullptr : &found.error());
        !ok)
      return ok;
  }
  if (!config.store)
    return {};
  const auto archives = archives_of(config.store->path);
  return check_directory("model_store.path", config.store->path,
                         archives ? nullptr : &archives.error());
}

} // namespace

machine_facts assumed_machine(const node_config& node, machine_facts like) {
  std::uint32_t cores = static_cast<std::uint32_t>(like.cores.size());
  for (const auto& text : node.devices)
    if (const auto where = parse_device(text))
      for (const auto core : where->cores)
        cores = std::max(cores, core + 1);
  std::uint32_t next = 0;
  for (const auto core : like.cores)
    next = std::max(next, core + 1);
  while (like.cores.size() < cores)
    like.cores.push_back(next++);
  return like;
}

result<void> check_files(const cluster_config& config, plan_record with) {
  bool waits_for_machines = false;
  for (const auto& n : config.nodes)
    if (n.is_elsewhere && !with.known.contains(n.name)) {
      with.known.emplace(n.name,
                         assumed_machine(n, {.cores = {0}, .memory_available_bytes = any_memory}));
      waits_for_machines = true;
    }
  if (waits_for_machines) {
    with.known.at(root_machine).memory_available_bytes = any_memory;
    if (auto ok = check_plans(config, std::move(with)); !ok)
      return ok;
  }
  return check_directories(config);
}

} // namespace baton::cluster
