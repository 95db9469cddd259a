// The root supervisor, `cluster up`. Starts gateways, heads and agents, or adopts those of a root
// that died. Shows their start, restarts them, and drains on SIGTERM. No data passes through it, so
// streams continue without it.
#include "actors/supervision/supervisor.hpp"
#include "cluster/bus/proxies.hpp"
#include "cluster/config/running_clusters.hpp"
#include "cluster/files/incarnation_clock.hpp"
#include "cluster/files/root_log.hpp"
#include "cluster/join/join_server.hpp"
#include "cluster/models/model_controller.hpp"
#include "cluster/models/models_record.hpp"
#include "cluster/process/left_over.hpp"
#include "cluster/roles/agent/child_launch.hpp"
#include "cluster/roles/gateway/gateway_files.hpp"
#include "cluster/roles/process.hpp"
#include "cluster/roles/roles.hpp"
#include "cluster/roles/root/node_orders.hpp"
#include "cluster/roles/root/plan_controller.hpp"
#include "cluster/roles/root/plan_sender.hpp"
#include "cluster/roles/root/progress.hpp"
#include "cluster/roles/root/root_children.hpp"
#include "cluster/roles/root/root_claim.hpp"
#include "cluster/roles/root/status_aggregator.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>

namespace baton::cluster {
namespace {

constexpr std::size_t bad_ends_max = 8; // reported at most

// The root's actors, and the order in which they end.
class root {
public:
  // `original`: the operator's nodes.toml; `copy`: the cluster's.
  root(const cluster_contexts& all, std::filesystem::path original,
       const std::filesystem::path& copy, incarnation_clock& incarnations, process& self,
       progress& progress_line, join_server* join, model_controller& models)
      : all_(all), cluster_(all.base), self_(self), progress_line_(progress_line), join_(join),
        models_(models), plan_sender_(self.links(), all.base.dir, join),
        launcher_(watch_, all, copy, incarnations),
        plan_controller_(all, {[this](const plan_update& w) { plan_sender_.publish(w); },
                               [this](const plan_snapshot&) { change_children(); }}),
        nodes_(plan_controller_, join, std::move(original)) {
    start_status_aggregator();
    start_supervisor();
    start_models();
  }

  // Drains open streams within the grace, unless it is interrupted; then stops the children, last
  // started first.
  root_end shut_down(bool came_up, std::chrono::milliseconds grace) {
    models_.stop();
    drain order{grace};
    auto failed = progress_line_.failure();
    is_draining_ = true;
    for (std::uint32_t i = 0; i < cluster_.config.gateway.processes; ++i)
      self_.links().send(process_ids::gateway(i), actors::well_known::gateway, message(order));
    for (const auto& c : all_)
      self_.links().send(process_ids::head(c.pipeline()), actors::well_known::scheduler,
                         message(order));
    const auto cut =
        came_up ? progress_line_.wait_drained(grace, [this] { return self_.wait_briefly(); })
                : std::string();
    if (failed.empty())
      failed = progress_line_.failure();
    is_stopping_ = true;
    caf::anon_send(supervisor_, order);
    self_.wait_stopped();
    const auto left = end_left_over(cluster_.dir, root_name.name);
    if (failed.empty())
      failed = has_stopped_ ? bad_ends() : "what it supervises has not ended";
    if (failed.empty() && !left.empty())
      failed = fmt::format("{} had lost its supervisor", left);
    return end_of(came_up, failed, cut);
  }

  plan_snapshot plan() const { return plan_controller_.snapshot(); }

  void joined_late(const std::string& node, const machine_facts& facts) {
    plan_controller_.on_joined(node, facts);
  }

  // The keys of machines have changed: inform the remote agents.
  void keys_changed() {
    plan_controller_.publish([this](const plan_update& w) {
      for (const auto& a : w.agents)
        plan_sender_.send_joined_to(a.process, w);
    });
  }

  // A remote machine has reported that it cannot run as this node.
  void cannot(const std::string& node, const std::string& why) {
    const auto now = plan_controller_.latest_update();
    if (const auto* a = agent_on(now.agents, node))
      caf::anon_send(supervisor_,
                     status{a->process, {}, role::agent, a->name, phase::recovering, why, 0, 0, 0});
  }

private:
  // Called from several threads; the lock makes the newest state the last one that is sent.
  void change_children() {
    const std::lock_guard lock(children_mutex_);
    const auto now = plan_controller_.snapshot();
    caf::anon_send(status_aggregator_,
                   expected_of(all_, now, models_.workers(), models_.snapshot()));
    caf::anon_send(supervisor_,
                   actors::wanted_children{children_of(all_, now.agents, models_.workers())});
    for (const auto& s : unserved(models_.snapshot()))
      caf::anon_send(status_aggregator_, s);
  }

  void start_models() {
    self_.links().publish(actors::well_known::models, [this](const envelope& from, message&& m) {
      if (auto* order = std::get_if<change_model>(&m))
        models_.change(from.source, std::move(*order));
      else if (const auto* done = std::get_if<model_drained>(&m))
        models_.on_drained(from.source.value - process_ids::first_gateway.value, done->revision);
    });
    model_controller::outside to;
    to.publish = [this](const served_models& now) {
      for (std::uint32_t i = 0; i < cluster_.config.gateway.processes; ++i)
        self_.links().post(process_ids::gateway(i), actors::well_known::models, message(now));
    };
    to.changed = [this] { change_children(); };
    to.answer = [this](process_id gateway, const model_changed& m) {
      self_.links().post(gateway, actors::well_known::models, message(m));
    };
    to.children = &watch_;
    models_.begin(std::move(to));
  }

  // Collects children that fail while they are stopped. A gateway whose loss during draining is
  // already reported is not counted again.
  void on_end(const actors::child_exited& m) {
    if (!is_stopping_ || !m.has_failed ||
        progress_line_.was_lost_while_draining(m.process, m.incarnation))
      return;
    const std::lock_guard lock(children_mutex_);
    if (bad_ends_.size() < bad_ends_max)
      bad_ends_.push_back(fmt::format("{} while it was stopped: {}", m.name, m.how));
  }

  std::string bad_ends() {
    const std::lock_guard lock(children_mutex_);
    return fmt::format("{}", fmt::join(bad_ends_, "; "));
  }

  // Adds the last line of a worker's log if the supervisor has not read it.
  void on_worker_end(const actors::child_exited& m) {
    for (const auto& w : models_.workers())
      if (w.process == m.process) {
        const bool has_spoken = !m.is_permanent && m.how.starts_with("exit status");
        const auto last = has_spoken ? last_line(cluster_.dir.log(w.name)) : std::string();
        models_.on_end(m.process, last.empty() ? m.how : m.how + ": " + last);
      }
  }

  void start_status_aggregator() {
    status_aggregator_config config;
    const auto& gateway = cluster_.config.gateway;
    config.url = (gateway.tls_certificate.empty() ? "http://" : "https://") + gateway.http;
    config.expected =
        expected_of(all_, plan_controller_.snapshot(), models_.workers(), models_.snapshot());
    config.changed = [this](const cluster_status& s) { progress_line_.show(s); };
    config.send_to_client = [this](process_id who, const cluster_status& s) {
      self_.links().send(who, actors::well_known::client, message(s));
    };
    config.gateway =
        proxies<actors::gateway_actor>(self_.system(), self_.links(), actors::well_known::gateway);
    status_aggregator_ = self_.own_typed(self_.system().spawn(status_aggregator, config));
    self_.forward_peer_events(status_aggregator_);
    self_.links().publish(actors::well_known::supervisor, [this](const envelope& from,
                                                                 message&& m) {
      if (auto* s = std::get_if<status>(&m); s && s->role == role::worker) {
        on_worker(*s);
      } else if (s) {
        if (s->role == role::head)
          plan_controller_.on_serving(process_ids::pipeline_of_head(s->process),
                                      s->phase == phase::ready || s->phase == phase::draining);
        if (s->phase == phase::failed)
          plan_controller_.on_failed(*s);
        caf::anon_send(supervisor_, *s);
        caf::anon_send(status_aggregator_, *s);
      } else if (auto* now = std::get_if<serves>(&m)) {
        plan_controller_.on_serves(now->generation);
      } else if (auto* order = std::get_if<change_nodes>(&m)) {
        self_.links().send(from.source, actors::well_known::client, message(nodes_.change(*order)));
      } else if (auto* removal = std::get_if<remove_node>(&m)) {
        self_.links().send(from.source, actors::well_known::client,
                           message(nodes_.remove(*removal)));
      } else if (auto* scaling = std::get_if<scale_model>(&m)) {
        self_.links().send(from.source, actors::well_known::client,
                           message(plan_controller_.scale(*scaling)));
      } else if (auto* j = std::get_if<joined>(&m)) {
        plan_sender_.on_joined_confirmed(from.source, *j, plan_controller_.latest_update().agents);
      } else if (auto* q = std::get_if<query_status>(&m)) {
        caf::anon_send(status_aggregator_, asked{from.source, *q});
      } else if (auto* l = std::get_if<load_report>(&m)) {
        caf::anon_send(status_aggregator_, load_of{process_ids::pipeline_of_head(from.source), *l});
      }
    });
  }

  // A worker connects to its gateway, whose report stands in for a link to the root.
  void on_worker(const status& s) {
    if (s.phase == phase::ready) {
      hello peer;
      peer.process = s.process;
      peer.incarnation = s.incarnation;
      peer.role = role::worker;
      caf::anon_send(supervisor_, actors::peer_up{peer});
      caf::anon_send(supervisor_, s);
      models_.on_ready(s.process);
    } else {
      caf::anon_send(supervisor_, actors::peer_down{s.process, s.incarnation, s.reason});
    }
  }

  void start_supervisor() {
    actors::supervisor_config config;
    config.name = root_name.name;
    config.children = children_of(all_, agents_of(cluster_.config), models_.workers());
    launcher_.observe([this](const actors::child_exited& m) {
      on_end(m);
      on_worker_end(m);
    });
    launcher_.serve(config);
    config.retired = [this, here = config.retired](const actors::child_spec& spec) {
      here(spec);
      if (spec.role == role::worker)
        models_.on_gone(spec.process);
      if (join_ != nullptr)
        join_->forget_removed();
    };
    config.stop = [this, here = config.stop](const actors::child_spec& spec, std::int32_t pid,
                                             bool force) {
      if (!spec.is_elsewhere)
        here(spec, pid, force);
      else if (!force)
        self_.links().send(spec.process, actors::well_known::supervisor, message(drain{}));
    };
    config.changed = [this](const std::vector<status>& all) {
      for (const auto& s : all) {
        if (s.role == role::worker && s.phase == phase::failed)
          models_.on_given_up(s.process, s.reason);
        caf::anon_send(status_aggregator_, s);
      }
    };
    // The root has no supervisor: the status shows the failure, and so does the root's exit status.
    config.escalate = [](const status& s) {
      spdlog::error("{} is not started again until the next `cluster up`: {}", s.name, s.reason);
    };
    config.stopped = [this] {
      has_stopped_ = true;
      self_.stop();
    };
    supervisor_ = self_.own_typed(self_.system().spawn(actors::supervisor, config));
    launcher_.reports_to(supervisor_);
    self_.forward_peer_events(supervisor_);
    self_.on_tick([this] {
      caf::anon_send(supervisor_, actors::tick{});
      plan_controller_.tick();
    });
    self_.on_peer(
        [this](const hello& peer) {
          if (peer.role == role::head || peer.role == role::agent)
            plan_controller_.publish(
                [&](const plan_update& w) { plan_sender_.send_to(peer.process, w); });
          if (peer.role == role::gateway)
            models_.on_gateway();
          if (peer.role == role::gateway && is_draining_) // a restarted gateway
            self_.links().send(peer.process, actors::well_known::gateway, message(drain{}));
          plan_controller_.on_agent(peer.process, true);
        },
        [this](process_id who, incarnation_id, const std::string&) {
          plan_controller_.on_agent(who, false);
          for (const auto& c : all_)
            if (who == process_ids::head(c.pipeline()))
              plan_controller_.on_serving(c.pipeline(), false);
        });
  }

  const cluster_contexts& all_;
  const cluster_base& cluster_;
  process& self_;
  progress& progress_line_;
  join_server* join_; // null: all nodes are on this machine
  model_controller& models_;
  std::atomic<bool> is_draining_{false};
  std::atomic<bool> is_stopping_{false}; // set after is_draining_
  std::atomic<bool> has_stopped_{false};
  std::mutex children_mutex_;
  std::vector<std::string> bad_ends_; // while stopping
  plan_sender plan_sender_;
  child_watch watch_;
  child_launcher launcher_;
  plan_controller plan_controller_;
  node_orders nodes_;
  status_aggregator_actor status_aggregator_;
  actors::supervisor_actor supervisor_;
};

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
  auto config = copy_config(cluster, options.config);
  if (!config)
    return refuse(config.error());
  if (auto ok = record_running(cluster.dir, cluster.config.name);
      !ok) // the cluster runs without it
    spdlog::warn("{}", ok.error().message);
  auto started = process::start(
      {process_ids::root, incarnation, role::root, "root", cluster.where.listen(root_name), {}, {}},
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
  if (join) {
    self.on_tick([join] { join->tick(); });
    self.on_key([join](const key_pair& own) { join->use_key(own); });
    join->on_keys([&] { all->keys_changed(); });
    join->on_failed(
        [&](const std::string& node, const std::string& why) { all->cannot(node, why); });
    join->on_joined([&](const std::string& node, const machine_facts& facts) {
      all->joined_late(node, facts);
    });
    for (const auto& [node, facts] : join->gathered()) // joined before the callback was set
      if (!cluster.made_with.known.contains(node))
        all->joined_late(node, facts);
  }
  self.begin();
  bool came_up = progress_line.wait_ready([&] { return self.wait_briefly(); });
  if (came_up)
    self.wait();
  progress_line.draining();
  if (join) {
    join->on_failed(nullptr);
    join->on_joined(nullptr);
    join->on_keys(nullptr);
  }
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
