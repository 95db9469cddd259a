#include "cluster/roles/root/status_aggregator.hpp"

#include "actors/actor_faults.hpp"
#include "schema/result.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

using pointer = status_aggregator_actor::stateful_pointer<status_aggregator_state>;

// The effect of a process that is not restarted.
std::string_view effect_of_loss(role r) {
  switch (r) {
  case role::head:
    return "its pipeline does not serve";
  case role::gateway:
    return "its listeners are closed";
  case role::agent:
    return "its shards go on, but are not restarted";
  case role::shard:
    return "its pipeline does not serve until other shards take its layers";
  case role::worker:
    return "its model is not served";
  default:
    return "it is missing";
  }
}

std::string reason_of(const status& s) {
  const bool has_given_up = s.supervision && s.supervision->has_given_up;
  return fmt::format("{}: {}{}", s.name, s.reason,
                     has_given_up ? fmt::format("; {} has given it up: {}", s.supervision->by,
                                                effect_of_loss(s.role))
                                  : std::string());
}

// The process whose reason explains the cluster's state: a failed one before those that wait.
const status* failing_member(const std::vector<status>& nodes) {
  const status* failing = nullptr;
  for (const auto& n : nodes) {
    const bool fails = n.phase == phase::failed;
    if (n.phase != phase::ready && !n.reason.empty() &&
        (!failing || (fails && failing->phase != phase::failed)))
      failing = &n;
  }
  return failing;
}

cluster_status picture(const status_aggregator_state& s) {
  cluster_status all;
  all.url = s.config.url;
  std::vector<status> judged;
  for (const auto& [process, st] : s.nodes) {
    all.nodes.push_back(st);
    if (!s.expected.coming.contains(process))
      judged.push_back(st);
  }
  all.phase = overall_phase(judged, s.was_ready);
  if (const auto* n = failing_member(judged))
    all.reason = reason_of(*n);
  all.pipelines = s.expected.pipelines;
  for (const auto& [number, load] : s.loads)
    if (number < all.pipelines.size())
      all.pipelines[number].load = load;
  for (const auto& [number, loads] : s.on_demand)
    if (number < all.pipelines.size())
      all.pipelines[number].on_demand = loads;
  all.assignments = s.expected.assignments;
  if (all.pipelines.empty())
    return all;
  const auto& first = all.pipelines.front();
  all.model = first.model;
  all.load = first.load;
  all.generation = first.generation;
  all.coming_generation = first.coming_generation;
  all.change = first.change;
  return all;
}

void publish(pointer self) {
  auto& s = self->state;
  auto all = picture(s);
  s.was_ready = s.was_ready || all.phase == phase::ready;
  for (auto gateway : s.gateways)
    self->send(s.config.gateway(gateway), all);
  s.config.changed(all);
}

void expect(status_aggregator_state& s, const expected_now& m) {
  std::map<process_id, status> nodes;
  for (const auto& st : m.nodes) {
    const auto known = s.nodes.find(st.process);
    nodes.emplace(st.process, known == s.nodes.end() ? st : known->second);
  }
  s.nodes = std::move(nodes);
  s.expected = m;
}

} // namespace

phase overall_phase(const std::vector<status>& nodes, bool was_ready) {
  auto any = [&](phase p) {
    return std::any_of(nodes.begin(), nodes.end(), [p](const status& s) { return s.phase == p; });
  };
  if (any(phase::failed))
    return phase::failed;
  if (any(phase::draining) || any(phase::stopped))
    return phase::draining;
  if (std::all_of(nodes.begin(), nodes.end(),
                  [](const status& s) { return s.phase == phase::ready; }))
    return phase::ready;
  return was_ready ? phase::recovering : any(phase::loading) ? phase::loading : phase::starting;
}

status_aggregator_actor::behavior_type status_aggregator(pointer self,
                                                         status_aggregator_config config) {
  actors::install_fault_handlers(self);
  self->state.config = std::move(config);
  expect(self->state, self->state.config.expected);
  return {
      [self](const status& m) {
        const auto it = self->state.nodes.find(m.process);
        if (it == self->state.nodes.end())
          return; // of a generation that is over
        auto& known = it->second;
        if (m.incarnation < known.incarnation)
          return; // from an earlier incarnation
        auto restarts = std::max(known.restarts, m.restarts);
        auto supervision = m.supervision ? m.supervision : known.supervision;
        known = m;
        known.restarts = restarts;
        known.supervision = std::move(supervision); // set by the supervisor, not by the child
        publish(self);
      },
      [self](const asked& m) {
        auto all = picture(self->state);
        all.request = m.what.request;
        self->state.config.send_to_client(m.who, all);
      },
      [self](const expected_now& m) {
        expect(self->state, m);
        publish(self);
      },
      [self](const on_demand_now& m) {
        self->state.on_demand = m.all;
        publish(self);
      },
      [self](const load_of& m) { self->state.loads[m.pipeline] = m.load; },
      [self](const actors::peer_up& m) {
        if (m.peer.role != role::gateway)
          return;
        std::erase(self->state.gateways, m.peer.process);
        self->state.gateways.push_back(m.peer.process);
        publish(self);
      },
      [self](const actors::peer_down& m) { std::erase(self->state.gateways, m.process); },
      [](const actors::tick&) {},
  };
}

} // namespace baton::cluster
