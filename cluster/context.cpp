#include "cluster/model_identity.hpp"
#include "cluster/roles.hpp"

namespace baton::cluster {

result<cluster_context> load_context(const std::filesystem::path& config_file,
                                     const machine_facts& machine,
                                     std::optional<std::uint64_t> identity) {
  auto config = load_config(config_file);
  if (!config)
    return config.error();
  auto file = model::open_model(config->model.path);
  if (!file) {
    auto e = file.error();
    e.message = fmt::format("model.path: {}", e.message);
    return e;
  }
  auto found = model_identity(**file);
  if (!found)
    return found.error();
  if (identity)
    if (auto ok = check_identity(**file, *found, *identity); !ok)
      return ok.error();
  auto description = model::describe(**file);
  if (!description)
    return description.error();
  auto plan = make_plan(*config, *description, machine);
  if (!plan)
    return plan.error();
  auto dir = run_dir::open(config->run_dir);
  if (!dir)
    return dir.error();
  return cluster_context{
      std::move(*config), std::move(*description), std::move(*plan), machine, *found,
      std::move(*dir)};
}

result<cluster_context> load_context_of_root(const std::filesystem::path& config_file) {
  auto machine = facts_of_this_machine();
  std::optional<std::uint64_t> identity;
  if (auto config = load_config(config_file))
    if (auto dir = run_dir::open(config->run_dir); dir && !dir->alive().empty())
      if (const auto plan = dir->noted_plan()) {
        machine.memory_available_bytes = plan->memory_available_bytes;
        identity = plan->model_identity;
      }
  return load_context(config_file, machine, identity);
}

} // namespace baton::cluster
