// The root supervisor, `cluster up`. Starts gateways, heads and agents, or adopts those of a root
// that died. Shows their start, restarts them, and drains on SIGTERM. No data passes through it, so
// streams continue without it.
#include "cluster/files/incarnation_clock.hpp"
#include "cluster/files/root_log.hpp"
#include "cluster/models/models_record.hpp"
#include "cluster/process/running_clusters.hpp"
#include "cluster/roles/gateway/gateway_files.hpp"
#include "cluster/roles/roles.hpp"
#include "cluster/roles/root/root.hpp"
#include "cluster/roles/root/root_children.hpp"
#include "cluster/roles/root/root_claim.hpp"

#include <spdlog/spdlog.h>

namespace baton::cluster {

namespace {

// Machines that ask to join reach the root.
void attach(join_server& join, process& self, root& all, const cluster_base& cluster) {
  self.on_tick([&join] { join.tick(); });
  self.on_key([&join](const key_pair& own) { join.use_key(own); });
  join.on_keys([&all] { all.keys_changed(); });
  join.on_failed(
      [&all](const std::string& node, const std::string& why) { all.cannot(node, why); });
  join.on_joined([&all](const std::string& node, const machine_facts& facts) {
    all.joined_late(node, facts);
  });
  for (const auto& [node, facts] : join.gathered()) // joined before the callback was set
    if (!cluster.made_with.known.contains(node))
      all.joined_late(node, facts);
}

void detach(join_server& join) {
  join.on_failed(nullptr);
  join.on_joined(nullptr);
  join.on_keys(nullptr);
}

} // namespace

int run_root(const cluster_contexts& pipelines, const up_options& options, join_server* join) {
  const auto& cluster = pipelines.base;
  auto refuse = [&](const error& e) {
    progress::failed(e, options.json);
    return exit_status_of(e.code);
  };
  if (auto ok = claim_cluster(pipelines, options.config); !ok)
    return refuse(ok.error());
  if (auto ok = open_root_log(cluster.dir, cluster.config.log_level); !ok)
    return refuse(ok.error());
  incarnation_clock incarnations(cluster.dir, "root",
                                 wall_micros); // the only source, after the claim
  const auto incarnation = incarnations.next();
  if (auto ok = cluster.dir.record("root", incarnation); !ok)
    return refuse(ok.error());
  for (const auto& each : cluster.config.passed_over)
    spdlog::warn("{} is not served: {}", each.path.string(), each.why);
  auto config = copy_config(cluster);
  if (!config)
    return refuse(config.error());
  if (auto ok = record_running(cluster.dir, cluster.config.name);
      !ok) // the cluster runs without it
    spdlog::warn("{}", ok.error().message);
  auto started = process::start({.process = process_ids::root,
                                 .incarnation = incarnation,
                                 .as = role::root,
                                 .name = "root",
                                 .endpoint = cluster.where.listen(root_name),
                                 .supervisor = {},
                                 .supervisor_endpoint = {}},
                                cluster.where, /*actor_threads=*/1);
  if (!started)
    return refuse(started.error());
  auto& self = **started;
  auto models = model_controller::create(cluster.config, cluster.dir);
  if (!models)
    return refuse(models.error());
  progress progress_line(pipelines, options.json);
  auto all = std::make_unique<root>(pipelines, options.config, *config, incarnations, self,
                                    progress_line, join, **models);
  if (join)
    attach(*join, self, *all, cluster);
  self.begin();
  bool came_up = progress_line.wait_ready([&] { return self.wait_briefly(); });
  if (came_up)
    self.wait();
  progress_line.draining();
  if (join)
    detach(*join);
  const auto end = all->shut_down(came_up, came_up ? cluster.config.shutdown_timeout
                                                   : std::chrono::milliseconds(0));
  const auto left = everybody(pipelines, all->plan(), (*models)->workers());
  started->reset();
  all.reset();
  for (const auto& record : left)
    cluster.dir.forget(record.name);
  cluster.dir.forget("root");
  cluster.dir.remove_stale_files();
  forget_running(cluster.dir);
  if (!end.why.empty())
    spdlog::error("did not end cleanly: {}", end.why);
  progress_line.stopped(end);
  return end.status;
}

} // namespace baton::cluster
