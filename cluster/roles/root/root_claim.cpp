#include "cluster/roles/root/root_claim.hpp"

#include "cluster/config/readers/config_file.hpp"
#include "cluster/membership/membership.hpp"
#include "cluster/models/models_record.hpp"
#include "cluster/process/running_clusters.hpp"
#include "cluster/roles/gateway/gateway_files.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/root/root_children.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace baton::cluster {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Compares the running configuration with the file, which may have additional nodes.
result<void> judge_config(const cluster_base& cluster, plan_record recorded,
                          const std::filesystem::path& config) {
  auto running = parse_config(text_of(cluster.dir.config()), config.string());
  auto fresh = parse_config(cluster.text, config.string());
  if (!fresh)
    return fresh.error();
  if (!running)
    return running.error();
  if (auto ok = assign_agent_indices(recorded.members, *running); !ok)
    return ok.error();
  return check_grown(*running, *fresh, recorded.members);
}

// Processes of a root that died can be adopted if this root would have started the same ones.
result<void> judge_left(const cluster_contexts& all, const std::filesystem::path& config,
                        const std::vector<process_record>& left) {
  const auto& cluster = all.base;
  const auto refuse = [&](const std::string& why) {
    return left_with_another(cluster.dir, cluster.config.name, why);
  };
  const auto plan = recorded_plan(cluster.dir);
  if (!plan || plan->build != build_version())
    return refuse(fmt::format("and is build {}, this is {}", plan ? plan->build : "(unknown)",
                              build_version()));
  if (auto ok = judge_config(cluster, *plan, config); !ok)
    return refuse(
        fmt::format("with another configuration than {}: {}", config.string(), ok.error().message));
  const auto planned =
      children_of(all, agents_of(cluster.config),
                  workers_of(cluster.config, recorded_snapshot(cluster.config, cluster.dir)));
  for (const auto& record : left)
    if (!record.name.starts_with("shard-") && // of any generation: its agent manages them
        std::none_of(planned.begin(), planned.end(),
                     [&](const actors::child_spec& s) { return s.name == record.name; }))
      return refuse(fmt::format("and {} is not in the plan", record.name));
  return {};
}

} // namespace

result<std::filesystem::path> copy_config(const cluster_base& cluster) {
  auto copy = cluster.dir.config();
  if (auto ok = cluster.dir.write(copy.filename().string(), cluster.text); !ok)
    return ok.error();
  return copy;
}

error left_with_another(const run_dir& dir, const std::string& cluster, const std::string& why) {
  const auto left = dir.alive();
  const auto who = left.empty() ? std::string("no process is left")
                                : fmt::format("{}, pid {}{}", left[0].name, left[0].pid,
                                              left.size() > 1 ? ", ..." : "");
  return fail(errc::conflict, "{} runs without its root ({}), {}: `cluster down {}` ends it",
              cluster, who, why, cluster);
}

result<void> check_not_running(const run_dir& dir, const cluster_config& config) {
  const auto alive = dir.alive();
  if (alive.empty())
    return {};
  const auto name = recorded_name(dir).value_or(config.name);
  const auto root = std::find_if(alive.begin(), alive.end(),
                                 [](const process_record& n) { return n.name == "root"; });
  if (name != config.name)
    return fail(errc::conflict,
                "another cluster is already running in {}: {} ({}, pid {}): `cluster down {}` ends "
                "it; with a cluster.run_dir of its own {} can run beside it",
                dir.path().string(), name, alive[0].name, alive[0].pid, name, config.name);
  if (root != alive.end())
    return fail(errc::conflict, "{} is already running (root, pid {}): `cluster down {}` ends it",
                config.name, root->pid, config.name);
  return {};
}

result<void> claim_cluster(const cluster_contexts& all, const std::filesystem::path& config) {
  const auto& cluster = all.base;
  if (auto ok = check_not_running(cluster.dir, cluster.config); !ok)
    return ok;
  const auto alive = cluster.dir.alive();
  if (auto ok = cluster.dir.lock(); !ok)
    return ok;
  if (auto ok = alive.empty() ? check_gateway_is_free(cluster.config.gateway)
                              : judge_left(all, config, alive);
      !ok)
    return ok;
  if (alive.empty()) {
    cluster.dir.remove_stale_files();
    if (auto ok = record_models(cluster.dir, {}); !ok) // of a cluster that has ended
      return ok;
  }
  auto plan = cluster.made_with;
  plan.build = build_version();
  return record_plan(cluster.dir, plan);
}

} // namespace baton::cluster
