#include "cluster/roles/root/plan_controller.hpp"

#include "cluster/config/pipelines.hpp"
#include "cluster/files/publish_latest.hpp"
#include "cluster/roles/process.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::cluster {
namespace {

using clock = std::chrono::steady_clock;

} // namespace

plan_controller::plan_controller(const cluster_contexts& all, outside to)
    : to_(std::move(to)), record_(all.base.made_with), dir_(all.base.dir),
      text_(dir_.read(dir_.config().filename().string()).value_or("")) {
  for (const auto& context : all)
    pipelines_.emplace_back(context);
  use_nodes(all.base.config);
}

void plan_controller::use_nodes(cluster_config now) {
  config_ = std::move(now);
  agents_ = agents_of(config_);
  for (auto& l : pipelines_)
    l.view = config_for(config_, l.context->pipeline());
}

// Processes that start on this machine later read their plan from here.
result<void> plan_controller::save() {
  record_.build = build_version();
  for (const auto& l : pipelines_)
    record_.pipelines.at(l.context->pipeline()).generations = l.registry.record();
  return record_plan(dir_, record_);
}

plan_update plan_controller::make_update() const {
  plan_update w{agents_, {text_, record_.members}, record_.known, {}};
  for (const auto& l : pipelines_)
    w.shards.push_back(l.registry.record().now);
  return w;
}

plan_snapshot plan_controller::make_snapshot() const {
  plan_snapshot all{agents_, {}};
  for (const auto& l : pipelines_)
    all.pipelines.push_back({l.view.model.name, l.serving, l.coming, l.registry.outcome()});
  return all;
}

void plan_controller::save_change() {
  if (auto ok = save(); !ok)
    spdlog::error("{}", ok.error().message); // a later root gets the state from heads and agents
  ++version_;
}

// Publishes without the lock, because the callbacks may call this object.
void plan_controller::publish() {
  publish_latest(
      [this] {
        std::lock_guard lock(mutex_);
        return std::pair(version_, std::pair(make_snapshot(), make_update()));
      },
      [this](const std::pair<plan_snapshot, plan_update>& now) {
        to_.changed(now.first);
        to_.publish(now.second);
      });
}

void plan_controller::publish(const std::function<void(const plan_update&)>& one) const {
  publish_latest(
      [this] {
        std::lock_guard lock(mutex_);
        return std::pair(version_, make_update());
      },
      one);
}

void plan_controller::change_and_publish(const std::function<void()>& change) {
  std::unique_lock lock(mutex_);
  const auto before = version_;
  change();
  const bool has_changed = version_ != before;
  lock.unlock();
  if (has_changed)
    publish();
}

nodes_changed plan_controller::change(const change_nodes& order) {
  nodes_changed answer;
  change_and_publish(
      [&] { answer = begin_steps(order.request, steps_.change(order), "it has no node"); });
  return answer;
}

nodes_changed plan_controller::scale(const scale_model& order) {
  nodes_changed answer;
  change_and_publish(
      [&] { answer = begin_steps(order.request, steps_.scale(order), "it is switched off"); });
  return answer;
}

result<void> plan_controller::switch_model(std::uint32_t pipeline, bool is_on) {
  nodes_changed answer;
  change_and_publish(
      [&] { answer = begin_steps(0, steps_.switch_pipeline(pipeline, is_on), "it is unloaded"); });
  return answer.refused ? result<void>(*answer.refused) : result<void>();
}

// `why_off`: the reason for pipelines that are left without a stage.
nodes_changed plan_controller::begin_steps(std::uint64_t request,
                                           result<std::vector<plan_step>> steps,
                                           const std::string& why_off) {
  if (!steps)
    return {request, 0, steps.error(), {}};
  nodes_changed answer{request, steps->front().next.number, std::nullopt, {}};
  for (auto& s : *steps) {
    const bool has_shards = s.next.stages > 0; // else there is nothing to wait for
    const auto begun = has_shards ? s.of->registry.begin(s.next, clock::now())
                                  : s.of->registry.replace(s.next, clock::now(), why_off);
    if (!begun) {
      answer.refused = begun.error();
      break;
    }
    if (has_shards)
      s.of->coming = std::move(s.plan);
    else
      s.of->serving = std::move(s.plan);
    if (&s != &steps->front())
      answer.further.push_back(s.next.number);
  }
  if (!answer.refused)
    if (auto ok = save(); !ok)
      answer.refused = ok.error();
  if (answer.refused) { // nothing is published yet, so only finished changes remain
    for (auto& s : *steps) {
      s.of->registry.give_up(answer.refused->message);
      s.of->coming.reset();
    }
  }
  ++version_;
  return answer;
}

bool plan_controller::has_node(const std::string& node) const {
  std::lock_guard lock(mutex_);
  return config_.has_node(node);
}

result<std::vector<node_config>>
plan_controller::admit(const std::string& node, const std::string& text, cluster_config fresh) {
  result<std::vector<node_config>> newcomers = std::vector<node_config>();
  change_and_publish([&] { newcomers = add_nodes(node, text, std::move(fresh)); });
  return newcomers;
}

result<std::vector<node_config>>
plan_controller::add_nodes(const std::string& node, const std::string& text, cluster_config fresh) {
  auto members = record_.members;
  members.removed.erase(node);
  if (!fresh.has_node(node))
    return fail(errc::not_found, "there is no node {} in the cluster's nodes.toml", node);
  if (auto ok = check_grown(config_, fresh, members); !ok)
    return ok.error();
  if (auto ok = assign_agent_indices(members, fresh); !ok)
    return ok.error();
  if (auto ok = dir_.write(dir_.config().filename().string(), text); !ok)
    return ok.error();
  std::vector<node_config> newcomers;
  std::set<std::string> names;
  for (const auto& n : fresh.nodes)
    if (!config_.has_node(n.name)) {
      newcomers.push_back(n);
      names.insert(n.name);
    }
  text_ = text;
  record_.members = std::move(members);
  use_nodes(std::move(fresh));
  for (auto& l : pipelines_) {
    l.registry.leave_out(names);
    for (const auto& name : names)
      if (has_devices_on(l.view, l.view.pipeline, name))
        l.failures.add(name, clock::now());
  }
  save_change();
  return newcomers;
}

result<void> plan_controller::remove(const std::string& node) {
  result<void> done;
  change_and_publish([&] { done = drop_node(node); });
  return done;
}

result<void> plan_controller::drop_node(const std::string& node) {
  const auto* agent = agent_on(agents_, node);
  if (agent == nullptr)
    return fail(errc::not_found, "there is no node {} in the cluster", node);
  if (agent->machine == root_machine)
    return fail(errc::bad_config,
                "node {} is on the machine of `cluster up` and ends with it: `cluster drain {}` "
                "takes its layers",
                node, node);
  for (const auto& l : pipelines_) {
    const auto& now = l.registry.record().now;
    const bool has_layers =
        has_shards_on(now.serving, node) || (now.coming && has_shards_on(*now.coming, node));
    if (has_layers && has_devices_on(l.view, l.view.pipeline, node))
      return fail(errc::conflict, "node {} has layers: `cluster drain {}` first", node, node);
  }
  auto rest = config_;
  std::erase_if(rest.nodes, [&](const node_config& n) { return n.name == node; });
  record_.members.removed.insert(node);
  record_.known.erase(node);
  use_nodes(std::move(rest));
  for (auto& l : pipelines_)
    l.failures.remove(node);
  save_change();
  return {};
}

void plan_controller::on_joined(const std::string& node, const machine_facts& facts) {
  change_and_publish([&] {
    record_.known.insert_or_assign(node, facts);
    save_change();
  });
}

void plan_controller::on_serves(std::uint32_t generation) {
  change_and_publish([&] {
    for (auto& l : pipelines_)
      if (l.registry.on_serves(generation)) {
        l.serving = std::move(*l.coming);
        l.coming.reset();
        l.moves.on_success();
        save_change();
      } else if (l.replacement && l.replacement == l.registry.coming() &&
                 generation == l.serving.generation) {
        give_up(l, "the lost node is back"); // before the others were ready
      }
  });
}

void plan_controller::tick() {
  change_and_publish([&] {
    for (auto& l : pipelines_) {
      if (l.registry.tick(clock::now())) {
        schedule_retry(l);
        l.coming.reset();
        save_change();
      }
      replace_lost_nodes(l);
    }
  });
}

plan_update plan_controller::latest_update() const {
  std::lock_guard lock(mutex_);
  return make_update();
}

plan_snapshot plan_controller::snapshot() const {
  std::lock_guard lock(mutex_);
  return make_snapshot();
}

} // namespace baton::cluster
