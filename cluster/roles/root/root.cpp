#include "cluster/roles/root/root.hpp"

#include "cluster/bus/proxies.hpp"
#include "cluster/files/root_log.hpp"
#include "cluster/process/left_over.hpp"
#include "cluster/roles/root/keep_alive_record.hpp"
#include "cluster/roles/root/root_children.hpp"

#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

namespace baton::cluster {
namespace {

constexpr std::size_t bad_ends_max = 8; // reported at most

std::vector<on_demand_model> loaded_on_demand(const cluster_contexts& all) {
  std::vector<on_demand_model> models;
  for (const auto& c : all) {
    const auto& m = c.config.model;
    if (m.loads_on_demand)
      models.push_back({c.pipeline(), m.name, m.idle_timeout, m.is_pinned});
  }
  return models;
}

} // namespace

root::root(const cluster_contexts& all, std::filesystem::path original,
           const std::filesystem::path& copy, incarnation_clock& incarnations, process& self,
           progress& progress_line, join_server* join, model_controller& models)
    : all_(all), cluster_(all.base), self_(self), progress_line_(progress_line), join_(join),
      models_(models), plan_sender_(self.links(), all.base.dir, join),
      launcher_(watch_, all, copy, incarnations),
      plan_controller_(all, {[this](const plan_update& w) { plan_sender_.publish(w); },
                             [this](const plan_snapshot&) { change_children(); }}),
      nodes_(plan_controller_, join, std::move(original)),
      on_demand_(loaded_on_demand(all), all.base.config.max_loaded_models,
                 {[this](std::uint32_t pipeline) { return load_model(pipeline); },
                  [this](std::uint32_t pipeline) { return unload_model(pipeline); },
                  [this](std::uint32_t pipeline, const error& why) {
                    self_.links().send(process_ids::head(pipeline), actors::well_known::scheduler,
                                       message(load_refused{why}));
                  }}) {
  on_demand_.restore(read_keep_alive(cluster_.dir));
  start_status_aggregator();
  start_supervisor();
  start_models();
}

root_end root::shut_down(bool came_up, std::chrono::milliseconds grace) {
  models_.stop();
  drain order{grace};
  auto failed = progress_line_.failure();
  is_draining_ = true;
  for (std::uint32_t i = 0; i < cluster_.config.gateway.processes; ++i)
    self_.links().send(process_ids::gateway(i), actors::well_known::gateway, message(order));
  for (const auto& c : all_)
    self_.links().send(process_ids::head(c.pipeline()), actors::well_known::scheduler,
                       message(order));
  const auto cut = came_up
                       ? progress_line_.wait_drained(grace, [this] { return self_.wait_briefly(); })
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

void root::joined_late(const std::string& node, const machine_facts& facts) {
  plan_controller_.on_joined(node, facts);
}

void root::keys_changed() {
  plan_controller_.publish([this](const plan_update& w) {
    for (const auto& a : w.agents)
      plan_sender_.send_joined_to(a.process, w);
  });
}

void root::cannot(const std::string& node, const std::string& why) {
  const auto now = plan_controller_.latest_update();
  if (const auto* a = agent_on(now.agents, node))
    caf::anon_send(supervisor_, status{.process = a->process,
                                       .incarnation = {},
                                       .role = role::agent,
                                       .name = a->name,
                                       .phase = phase::recovering,
                                       .reason = why,
                                       .pid = 0,
                                       .restarts = 0,
                                       .progress = 0});
}

// Called from several threads; the lock makes the newest state the last one that is sent.
void root::change_children() {
  const std::lock_guard lock(children_mutex_);
  const auto now = plan_controller_.snapshot();
  caf::anon_send(status_aggregator_, expected_of(all_, now, models_.workers(), models_.snapshot()));
  caf::anon_send(supervisor_,
                 actors::wanted_children{children_of(all_, now.agents, models_.workers())});
  for (const auto& s : unserved(models_.snapshot()))
    caf::anon_send(status_aggregator_, s);
}

void root::start_models() {
  self_.links().publish(actors::well_known::models, [this](const envelope& from, message&& m) {
    if (auto* order = std::get_if<change_model>(&m))
      change(from.source, std::move(*order));
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

void root::change(process_id gateway, change_model&& order) {
  const std::lock_guard lock(on_demand_mutex_);
  const auto pipeline = on_demand_.find(order.model);
  if (!pipeline)
    return models_.change(gateway, std::move(order));
  const auto answer = [this, gateway, request = order.request,
                       model = order.model](const result<void>& r) {
    model_changed m;
    m.request = request;
    m.model = model;
    if (!r)
      m.failure = r.error();
    self_.links().post(gateway, actors::well_known::models, message(std::move(m)));
  };
  const auto now = std::chrono::steady_clock::now();
  const auto done =
      order.waits ? on_demand_models::done_callback(answer)
                  : [is_answered = std::make_shared<bool>(false), answer](const result<void>& r) {
                      if (!std::exchange(*is_answered, true))
                        answer(r);
                    };
  if (order.keep_alive)
    on_demand_.keep(*pipeline, std::chrono::milliseconds(*order.keep_alive), now);
  if (order.what == model_order::keep)
    done({});
  else if (order.what == model_order::unload)
    on_demand_.order_unload(*pipeline, done, now);
  else
    on_demand_.order_load(*pipeline, done, now);
  decide_loads();
  if (!order.waits)
    done({}); // it has begun
}

// Collects children that fail while they are stopped. A gateway whose loss during draining is
// already reported is not counted again.
void root::on_end(const actors::child_exited& m) {
  if (!is_stopping_ || !m.has_failed ||
      progress_line_.was_lost_while_draining(m.process, m.incarnation))
    return;
  const std::lock_guard lock(children_mutex_);
  if (bad_ends_.size() < bad_ends_max)
    bad_ends_.push_back(fmt::format("{} while it was stopped: {}", m.name, m.how));
}

std::string root::bad_ends() {
  const std::lock_guard lock(children_mutex_);
  return fmt::format("{}", fmt::join(bad_ends_, "; "));
}

// Adds the last line of a worker's log if the supervisor has not read it.
void root::on_worker_end(const actors::child_exited& m) {
  for (const auto& w : models_.workers())
    if (w.process == m.process) {
      const bool has_spoken = !m.is_permanent && m.how.starts_with("exit status");
      const auto last = has_spoken ? last_line(cluster_.dir.log(w.name)) : std::string();
      models_.on_end(m.process, last.empty() ? m.how : m.how + ": " + last);
    }
}

void root::start_status_aggregator() {
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
  self_.links().publish(actors::well_known::supervisor,
                        [this](const envelope& from, message&& m) { take(from, std::move(m)); });
}

// Messages of children, and of commands (`cluster status`, `add`, `remove`, `scale`).
void root::take(const envelope& from, message&& m) {
  const auto answer = [&](message&& with) {
    self_.links().send(from.source, actors::well_known::client, std::move(with));
  };
  if (auto* s = std::get_if<status>(&m))
    on_status(*s);
  else if (auto* now = std::get_if<serves>(&m))
    on_serves(now->generation);
  else if (auto* order = std::get_if<change_nodes>(&m))
    answer(nodes_.change(*order));
  else if (auto* removal = std::get_if<remove_node>(&m))
    answer(nodes_.remove(*removal));
  else if (auto* scaling = std::get_if<scale_model>(&m))
    answer(plan_controller_.scale(*scaling));
  else if (auto* j = std::get_if<joined>(&m))
    plan_sender_.on_joined_confirmed(from.source, *j, plan_controller_.latest_update().agents);
  else if (auto* q = std::get_if<query_status>(&m))
    caf::anon_send(status_aggregator_, asked{from.source, *q});
  else if (auto* l = std::get_if<load_report>(&m))
    on_load(process_ids::pipeline_of_head(from.source), *l);
}

void root::on_load(std::uint32_t pipeline, const load_report& load) {
  caf::anon_send(status_aggregator_, load_of{pipeline, load});
  const std::lock_guard lock(on_demand_mutex_);
  if (!on_demand_.has(pipeline))
    return;
  on_demand_.on_load(pipeline, load.running + load.waiting + load.in_flight,
                     std::chrono::steady_clock::now());
  decide_loads();
}

void root::on_serves(std::uint32_t generation) {
  plan_controller_.on_serves(generation);
  review_loads();
}

void root::review_loads() {
  const std::lock_guard lock(on_demand_mutex_);
  if (!on_demand_.is_empty())
    decide_loads();
}

void root::decide_loads() {
  const auto now = std::chrono::steady_clock::now();
  const auto plan = plan_controller_.snapshot();
  for (const auto& p : plan.pipelines)
    on_demand_.observe(p.serving.pipeline, {p.serving.stages > 0, p.coming.has_value(), p.change},
                       now);
  on_demand_.decide(now);
  if (auto loads = on_demand_.snapshot(wall_clock_); loads != shown_loads_) {
    shown_loads_ = loads;
    caf::anon_send(status_aggregator_, on_demand_now{std::move(loads)});
  }
  if (auto kept = on_demand_.kept(); kept != recorded_) {
    recorded_ = std::move(kept);
    if (auto ok = write_keep_alive(cluster_.dir, recorded_); !ok)
      spdlog::warn("keep_alive is not recorded: {}", ok.error().message);
  }
}

result<void> root::load_model(std::uint32_t pipeline) {
  return plan_controller_.switch_model(pipeline, /*is_on=*/true);
}

result<void> root::unload_model(std::uint32_t pipeline) {
  std::set<process_id> ending;
  for (const auto& p : plan_controller_.snapshot().pipelines)
    if (p.serving.pipeline == pipeline)
      for (const auto& s : p.serving.shards)
        ending.insert(s.process);
  auto done = plan_controller_.switch_model(pipeline, /*is_on=*/false);
  if (done)
    unloading_[pipeline] = std::move(ending);
  return done;
}

// The memory of a model is free once its shards have ended.
void root::on_shard_ended(process_id shard) {
  const std::lock_guard lock(on_demand_mutex_);
  for (auto& [pipeline, shards] : unloading_)
    if (shards.erase(shard) > 0 && shards.empty()) {
      on_demand_.on_gone(pipeline);
      decide_loads();
    }
}

void root::tick() {
  caf::anon_send(supervisor_, actors::tick{});
  plan_controller_.tick();
  review_loads();
}

void root::on_status(const status& s) {
  if (s.role == role::worker)
    return on_worker(s);
  if (s.role == role::head)
    plan_controller_.on_serving(process_ids::pipeline_of_head(s.process),
                                s.phase == phase::ready || s.phase == phase::draining);
  if (s.phase == phase::failed)
    plan_controller_.on_failed(s);
  if (s.role == role::shard && s.phase == phase::stopped)
    on_shard_ended(s.process);
  caf::anon_send(supervisor_, s);
  caf::anon_send(status_aggregator_, s);
}

// A worker connects to its gateway, whose report stands in for a link to the root.
void root::on_worker(const status& s) {
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

void root::start_supervisor() {
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
  self_.on_tick([this] { tick(); });
  self_.on_peer([this](const hello& peer) { on_peer_up(peer); },
                [this](process_id who, incarnation_id, const std::string&) { on_peer_down(who); });
}

void root::on_peer_up(const hello& peer) {
  if (peer.role == role::head || peer.role == role::agent)
    plan_controller_.publish([&](const plan_update& w) { plan_sender_.send_to(peer.process, w); });
  if (peer.role == role::gateway)
    models_.on_gateway();
  if (peer.role == role::gateway && is_draining_) // a restarted gateway
    self_.links().send(peer.process, actors::well_known::gateway, message(drain{}));
  plan_controller_.on_agent(peer.process, true);
}

void root::on_peer_down(process_id who) {
  plan_controller_.on_agent(who, false);
  for (const auto& c : all_)
    if (who == process_ids::head(c.pipeline()))
      plan_controller_.on_serving(c.pipeline(), false);
}

} // namespace baton::cluster
