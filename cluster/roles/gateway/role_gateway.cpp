// The gateway: the API servers of one process, and the clients of its pipelines.
#include "cluster/bus/proxies.hpp"
#include "cluster/config/pipelines.hpp"
#include "cluster/files/open_files.hpp"
#include "cluster/process/child.hpp"
#include "cluster/roles/gateway/gateway_files.hpp"
#include "cluster/roles/gateway/gateway_workers.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "gateway/auth/crash_record.hpp"
#include "gateway/dispatch/request_router.hpp"
#include "gateway/server/api_servers.hpp"

#include <spdlog/spdlog.h>

#include <optional>

namespace baton::cluster {
namespace {

constexpr std::chrono::milliseconds files_interval{500}; // for a look at the files

struct head_entry {
  gateway::pipeline_config pipeline;
  stable_name name; // under which it is found
};

// By pipeline number.
std::vector<head_entry> heads_of(const cluster_config& config) {
  std::vector<head_entry> heads;
  for (const auto model : models_of_pipelines(config)) {
    const auto number = static_cast<std::uint32_t>(heads.size());
    const auto& m = config.models[model];
    heads.push_back({{process_ids::head(number), m.name, m.max_num_queued_reqs, m.use_job_ticket},
                     head_name(number)});
  }
  return heads;
}

gateway::gateway_config settings(const cluster_base& cluster, const identity& self,
                                 const std::vector<head_entry>& heads,
                                 std::optional<std::vector<gateway::api_key>> keys) {
  const auto& g = cluster.config.gateway;
  const auto index = self.process.value - process_ids::first_gateway.value;
  auto c = gateway_settings(g, std::move(keys), index);
  c.self = self.process;
  c.incarnation = self.incarnation;
  c.model_aliases = cluster.config.model.aliases; // of the first model
  c.pipelines.clear();
  for (const auto& head : heads)
    c.pipelines.push_back(head.pipeline);
  c.build = std::string(build_version());
  c.threads = g.threads;
  c.http_bounds.connections_max = g.max_connections;
  c.stream_buffer_max_bytes = g.stream_buffer_bytes;
  c.request_deadline = g.request_timeout;
  c.overload_status = static_cast<int>(g.overload_status);
  c.watermark_gamma = g.watermark_gamma;
  c.watermark_delta = g.watermark_delta;
  c.parses_special_tokens = g.parse_special_tokens;
  c.placeholder_models = g.placeholder_models;
  if (g.access_log)
    c.access_log = cluster.dir.log(name_of_gateway(index) + ".access");
  c.crash_record = cluster.dir.crash_record(name_of_gateway(index));
  c.otlp_endpoint = g.otlp_endpoint;
  c.trace_sampling_ratio = g.trace_sampling_ratio;
  if (g.max_concurrent_requests > 0)
    c.requests_max = g.max_concurrent_requests;
  return c;
}

// The pipeline that a message concerns: that of the head that sent it, or of the head whose status
// the root sends. All other messages concern the whole cluster, and go to the first.
std::size_t client_of(process_id source, const message& m, const std::vector<head_entry>& heads) {
  const auto* about = std::get_if<status>(&m);
  for (std::size_t i = 0; i < heads.size(); ++i)
    if (const auto head = heads[i].pipeline.head;
        head == source || (about && about->process == head))
      return i;
  return 0;
}

// Without LLMs there is no pipeline client; then this applies the root's messages.
void subscribe_to_root(process& self, const std::shared_ptr<gateway::gateway_state>& state) {
  self.links().publish(actors::well_known::gateway, [state](const envelope&, message&& m) {
    if (const auto* now = std::get_if<cluster_status>(&m))
      state->take(*now);
    else if (std::holds_alternative<drain>(m))
      state->begin_drain();
  });
}

// Warns if the open-file limit is below the maximal number of connections.
void look_at_open_files(std::uint32_t connections_max) {
  const auto needed = files_of_process + connections_max;
  if (const auto files = use_all_open_files(); files < needed)
    spdlog::warn("the system allows {} open files, gateway.max_connections of {} takes {}: raise "
                 "the limit (ulimit -Hn, or LimitNOFILE= of a systemd unit)",
                 files, connections_max, needed);
}

// Reports `ready` once no request would be refused only because this process is new. The progress
// is then 0, and 1 once it knows that the heads' shards are ready: the root reports a ready cluster
// only after that. An error of a file is the reason, for `cluster status`.
void report_ready(process& self, const std::shared_ptr<gateway::gateway_state>& state,
                  const std::shared_ptr<gateway_files>& files) {
  struct report {
    std::string reason;
    double progress = 0;
    bool operator==(const report&) const = default;
  };
  self.on_tick([&self, state, files, next = report(), sent = std::optional<report>(),
                files_due = std::chrono::steady_clock::time_point()]() mutable {
    const auto now = state->look();
    if (const auto at = std::chrono::steady_clock::now(); at >= files_due) {
      files_due = at + files_interval;
      files->look([&](const std::string& why) { next.reason = why; });
    }
    if (now->is_draining || (!sent && !state->is_informed()))
      return;
    if (next.progress < 1 && !gateway::awaits_head(*now))
      next.progress = 1;
    if (sent == next)
      return;
    sent = next;
    self.report(phase::ready, next.reason, next.progress);
  });
}

// A draining process has stopped once its last stream has ended.
void report_when_drained(process& self, const std::shared_ptr<gateway::gateway_state>& state) {
  self.on_tick([&self, state, reported = phase::ready]() mutable {
    if (!state->look()->is_draining)
      return;
    auto now = state->requests_open() == 0 ? phase::stopped : phase::draining;
    if (std::exchange(reported, now) != now)
      self.report(now, now == phase::draining
                           ? fmt::format("{} open requests", state->requests_open())
                           : "");
  });
}

std::vector<gateway::head_actors> actors_of(process& self, const std::vector<head_entry>& heads) {
  std::vector<gateway::head_actors> all;
  for (const auto& [pipeline, name] : heads)
    all.push_back({make_proxy<actors::scheduler_actor>(self.system(), self.links(), pipeline.head,
                                                       actors::well_known::scheduler),
                   make_proxy<actors::tokenizer_actor>(self.system(), self.links(), pipeline.head,
                                                       actors::well_known::tokenizer)});
  return all;
}

// Messages for the gateway go to the client of their pipeline.
void deliver_to_clients(process& self, const std::shared_ptr<gateway::gateway_state>& state,
                        const std::vector<head_entry>& heads,
                        const std::vector<gateway::pipeline_client_actor>& pipeline_clients) {
  if (pipeline_clients.empty())
    subscribe_to_root(self, state);
  else
    deliver_to_chosen<actors::gateway_actor>(
        self.links(), actors::well_known::gateway,
        [pipeline_clients, heads](const envelope& e, const message& m) -> actors::gateway_actor {
          return pipeline_clients[client_of(e.source, m, heads)];
        });
  for (const auto& pipeline_client : pipeline_clients) {
    self.forward_peer_events(pipeline_client);
    self.on_tick(
        [pipeline_client = pipeline_client] { caf::anon_send(pipeline_client, actors::tick{}); });
  }
}

} // namespace

int run_gateway(const cluster_base& cluster, const role_arguments& arguments) {
  const auto own_name = name_of_gateway(arguments.index);
  auto started = process::start({.process = process_ids::gateway(arguments.index),
                                 .incarnation = arguments.incarnation,
                                 .as = role::gateway,
                                 .name = own_name,
                                 .endpoint = cluster.where.listen(own_name, arguments.incarnation),
                                 .supervisor = process_ids::root,
                                 .supervisor_endpoint = cluster.where.find(root_name)},
                                cluster.where, /*actor_threads=*/1);
  if (!started) {
    spdlog::error("{}", started.error().message);
    return exit_status_of_listening(started.error().code);
  }
  auto& self = **started;
  outlive_parent(cluster.dir, own_name, arguments.incarnation);
  gateway::crash_record::mark_fatal_signals();
  look_at_open_files(cluster.config.gateway.max_connections);
  auto files = std::make_shared<gateway_files>(cluster.config.gateway);
  auto keys = load_keys_of(cluster.config.gateway);
  if (!keys) {
    spdlog::error("{}", keys.error().message);
    return exit_permanent;
  }
  for (const auto& r : remarks_on_gateway(cluster.config.gateway))
    spdlog::warn("{}: {}", r.what, r.fix);
  const auto heads = heads_of(cluster.config);
  auto state = std::make_shared<gateway::gateway_state>(
      settings(cluster, self.self(), heads, *std::move(keys)));
  const auto [router, pipeline_clients] =
      gateway::spawn_request_router(self.system(), state, actors_of(self, heads));
  self.own_typed(router);
  for (const auto& pipeline_client : pipeline_clients)
    self.own_pinned(pipeline_client);
  auto workers = gateway_workers::start(self, cluster, state, arguments.index);
  if (!workers) {
    spdlog::error("{}", workers.error().message);
    return exit_permanent;
  }
  auto opened = gateway::api_servers::start(self.system(), state, router);
  if (!opened) {
    spdlog::error("{}", opened.error().message);
    return exit_permanent;
  }
  const std::shared_ptr<gateway::api_servers> servers = *std::move(opened);
  files->attach(state, servers);
  deliver_to_clients(self, state, heads, pipeline_clients);
  report_ready(self, state, files);
  report_when_drained(self, state);
  self.begin();
  for (const auto& [pipeline, name] : heads)
    if (auto linked = self.links().connect(pipeline.head, cluster.where.find(name)); !linked)
      spdlog::error("cannot connect to the {}: {}", name.name, linked.error().message);
  self.wait();
  servers->stop();
  (*workers)->stop();
  return 0;
}

} // namespace baton::cluster
