#include "cluster/roles/gateway/gateway_workers.hpp"

#include "cluster/config/pipelines.hpp"
#include "cluster/config/worker_description.hpp"
#include "cluster/models/models_record.hpp"
#include "cluster/plan/worker_slots.hpp"
#include "gateway/workers/repository_client.hpp"
#include "gateway/workers/worker_lookup.hpp"
#include "gateway/zmq/worker_server.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::cluster {
namespace {

// A retired pool refuses requests for this long, because servers may still hold a reference to it.
constexpr std::chrono::seconds refusing_max{10};

schedule::worker_limits limits_of(const worker_config& w) {
  schedule::worker_limits limits;
  limits.batch_size = w.batch_size;
  limits.max_batch_delay = w.max_batch_delay;
  limits.max_queued = w.max_queued;
  limits.response_timeout = w.response_timeout;
  limits.use_job_ticket = w.use_job_ticket;
  limits.preferred_batch_sizes = w.preferred_batch_size;
  limits.preserve_ordering = w.preserve_ordering;
  limits.priority_levels = w.priority_levels;
  limits.default_priority_level = w.default_priority_level;
  limits.default_queue_policy = w.queue_policy;
  limits.priority_queue_policy = w.priority_queue_policy;
  return limits;
}

// Whether requests are accepted. Models of nodes.toml and of a store queue them until a worker is
// ready; models of the repository accept them once ready.
bool accepts_requests(const served_model& m) {
  return !m.is_of_repository || m.state == model_state::ready ||
         (m.state == model_state::loading && !m.archive.empty());
}

// Whether the revision needs a pool; otherwise it is only shown.
bool has_pool(const served_model& m) {
  return !m.workers.empty() || m.state == model_state::ready;
}

std::vector<std::string> processes_of(const served_model& m) {
  std::vector<std::string> names;
  for (const auto& w : m.workers)
    names.push_back(w.name);
  return names;
}

// Null: nodes.toml has neither a model repository nor a store, nor models on demand.
gateway::repository_actor start_repository_client(process& self, const cluster_config& config,
                                                  gateway::gateway_state& state) {
  if (!config.has_changing_models() && on_demand_pipelines(config).empty())
    return {};
  gateway::repository_client_config settings;
  settings.root = process_ids::root;
  settings.ask = [&self](const change_model& m) {
    self.links().post(process_ids::root, actors::well_known::models, message(m));
  };
  const auto made =
      self.own_typed(gateway::spawn_repository_client(self.system(), std::move(settings)));
  state.set_repository(std::make_shared<const gateway::repository_link>(
      gateway::repository_link{made, config.store.has_value()}));
  self.forward_peer_events(made);
  return made;
}

} // namespace

result<std::shared_ptr<gateway_workers>>
gateway_workers::start(process& self, const cluster_base& cluster,
                       std::shared_ptr<gateway::gateway_state> state, std::uint32_t gateway_index) {
  auto made = std::make_shared<gateway_workers>(self, cluster, std::move(state), gateway_index);
  const auto& config = cluster.config;
  const auto repository = start_repository_client(self, config, *made->state_);
  if (repository)
    self.on_tick([repository] { caf::anon_send(repository, actors::tick{}); });
  if (config.workers.empty() && !config.has_changing_models()) {
    if (repository)
      self.links().publish(actors::well_known::models, [repository](const envelope&, message&& m) {
        if (auto* done = std::get_if<model_changed>(&m))
          caf::anon_send(repository, std::move(*done));
      });
    return made;
  }
  auto server = gateway::worker_server::bind(
      cluster.dir.endpoint(worker_endpoint_name(gateway_index)), made->state_);
  if (!server)
    return server.error();
  made->server_ = *std::move(server);
  made->take(recorded_snapshot(config, cluster.dir));
  self.links().publish(actors::well_known::models,
                       [repository, to = made](const envelope&, message&& m) {
                         if (auto* all = std::get_if<served_models>(&m))
                           to->take(std::move(*all));
                         else if (auto* done = std::get_if<model_changed>(&m); done && repository)
                           caf::anon_send(repository, std::move(*done));
                       });
  self.on_tick([to = made] { to->tick(); });
  self.on_peer(
      [to = made](const hello& h) {
        to->each([&](const serving& s) { caf::anon_send(s.pool, actors::peer_up{h}); });
      },
      [](process_id, incarnation_id, const std::string&) {});
  return made;
}

gateway_workers::gateway_workers(process& self, const cluster_base& cluster,
                                 std::shared_ptr<gateway::gateway_state> state,
                                 std::uint32_t gateway_index)
    : self_(self), cluster_(cluster), state_(std::move(state)), index_(gateway_index) {}

gateway_workers::~gateway_workers() {
  stop();
}

void gateway_workers::each(const std::function<void(const serving&)>& f) {
  const std::lock_guard lock(mutex_);
  for (const auto& [revision, s] : pools_)
    f(s);
}

void gateway_workers::take(served_models now) {
  std::vector<std::uint64_t> drained;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_)
      return;
    for (const auto& m : now.all)
      if (take(m))
        drained.push_back(m.revision);
    end_others(now);
    show(std::move(now));
  }
  for (const auto revision : drained) // without the lock: the send may call back
    report_drained(revision);
}

bool gateway_workers::take(const served_model& one) {
  if (!has_pool(one))
    return false;
  auto at = pools_.find(one.revision);
  if (one.state == model_state::unloading) {
    if (at == pools_.end() || *at->second.is_drained)
      return true; // also for a root that missed the report
    caf::anon_send(at->second.pool, drain{cluster_.config.shutdown_timeout});
  } else if (at == pools_.end()) {
    const auto of = config_of(cluster_.config, one);
    if (!of) { // the root's text of the model is not this build's
      spdlog::error("the model {} is not served here: {}", one.name, of.error().message);
      return false;
    }
    pools_.emplace(one.revision, make(one, *of));
  } else {
    follow(at->second, one);
  }
  return false;
}

// Applies a change of its workers or of the default version.
void gateway_workers::follow(serving& s, const served_model& one) {
  s.view.is_default = one.is_default;
  auto processes = processes_of(one);
  if (processes == s.view.facts->processes)
    return;
  s.assigned = assigned_workers(one);
  s.has_workers(!one.workers.empty());
  auto facts = *s.view.facts;
  facts.processes = std::move(processes);
  s.view.facts = std::make_shared<const gateway::worker_facts>(std::move(facts));
  caf::anon_send(s.pool, gateway::worker_processes{s.assigned});
}

std::vector<gateway::worker_process>
gateway_workers::assigned_workers(const served_model& one) const {
  std::vector<gateway::worker_process> assigned;
  for (const auto& w : one.workers)
    if (w.gateway_index == index_)
      assigned.push_back({w.process, w.name});
  return assigned;
}

void gateway_workers::tick() {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  std::erase_if(pools_, [now](const auto& entry) {
    const auto& s = entry.second;
    const bool is_over = s.idle_since && now - *s.idle_since >= refusing_max;
    if (is_over)
      caf::anon_send_exit(s.pool, caf::exit_reason::user_shutdown);
    else
      caf::anon_send(s.pool, actors::tick{});
    return is_over;
  });
}

gateway_workers::serving gateway_workers::make(const served_model& one,
                                               const worker_config& config) {
  serving s;
  gateway::worker_pool_config options;
  options.model = one.name;
  options.version = one.version;
  options.limits = limits_of(config);
  options.facts = state_;
  options.processes = assigned_workers(one);
  options.send = [server = server_](schedule::worker_incarnation to, message m) {
    server->send(to, std::move(m));
  };
  options.report = [this](const status& st) {
    self_.links().post(process_ids::root, actors::well_known::supervisor, message(st));
  };
  options.drained = [this, revision = one.revision, flag = s.is_drained] {
    *flag = true;
    report_drained(revision);
  };
  s.assigned = options.processes;
  s.has_workers = [load = options.load](bool has) { load->has_workers = has; };
  s.has_workers(!one.workers.empty());
  s.view = {.name = one.name,
            .version = one.version,
            .load = options.load,
            .facts = facts_of(config, processes_of(one)),
            .archive = one.archive,
            .is_default = one.is_default};
  s.pool = gateway::spawn_worker_pool(self_.system(), std::move(options));
  process::guard(caf::actor_cast<caf::actor>(s.pool));
  return s;
}

void gateway_workers::report_drained(std::uint64_t revision) {
  self_.links().post(process_ids::root, actors::well_known::models,
                     message(model_drained{revision}));
}

// A revision that is no longer published has no processes: its open requests end.
void gateway_workers::end_others(const served_models& now) {
  for (auto& [number, s] : pools_) {
    const bool is_published =
        std::any_of(now.all.begin(), now.all.end(), [&, revision = number](const served_model& m) {
          return m.revision == revision && has_pool(m);
        });
    if (is_published || s.idle_since)
      continue;
    s.idle_since = std::chrono::steady_clock::now();
    caf::anon_send(s.pool, drain{});
  }
}

void gateway_workers::show(served_models now) {
  auto models = std::make_shared<gateway::worker_models>();
  std::vector<gateway::worker_view> views;
  gateway::worker_server::pools_by_process assigned;
  for (const auto& m : now.all) {
    const auto at = pools_.find(m.revision);
    if (at == pools_.end() || !has_pool(m))
      continue;
    for (const auto& p : at->second.assigned)
      assigned.emplace(p.process, at->second.pool);
    if (!accepts_requests(m))
      continue;
    views.push_back(at->second.view);
    models->by_name[m.name].push_back({m.version, at->second.pool, m.is_default});
  }
  for (auto& [name, versions] : models->by_name)
    std::sort(versions.begin(), versions.end(), gateway::goes_ahead<gateway::worker_model>);
  state_->set_workers(std::move(models), std::move(views), std::move(now));
  if (std::exchange(is_open_, true))
    server_->change(std::move(assigned));
  else
    server_->start(std::move(assigned));
}

void gateway_workers::stop() {
  std::map<std::uint64_t, serving> pools;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    std::swap(pools, pools_);
  }
  if (server_)
    server_->stop();
  if (pools.empty())
    return;
  caf::scoped_actor here(self_.system());
  for (const auto& [revision, s] : pools) {
    here->send_exit(s.pool, caf::exit_reason::user_shutdown);
    here->wait_for(caf::actor_cast<caf::actor>(s.pool));
  }
}

} // namespace baton::cluster
