#include "cluster/overview.hpp"

#include "actors/actor_faults.hpp"
#include "schema/result.hpp"

#include <algorithm>

namespace baton::cluster {
namespace {

using pointer = overview_actor::stateful_pointer<overview_state>;

// Whose reason it is: of one that failed rather than of those who wait for it.
const status* teller_of(const std::vector<status>& nodes) {
  const status* teller = nullptr;
  for (const auto& n : nodes) {
    const bool fails = n.phase == phase::failed;
    if (n.phase != phase::ready && !n.reason.empty() &&
        (!teller || (fails && teller->phase != phase::failed)))
      teller = &n;
  }
  return teller;
}

cluster_status picture(const overview_state& s) {
  cluster_status all;
  all.url = s.config.url;
  all.model = s.config.model;
  all.load = s.load;
  for (const auto& [node, st] : s.nodes)
    all.nodes.push_back(st);
  all.phase = overall_phase(all.nodes, s.was_ready);
  if (const auto* n = teller_of(all.nodes))
    all.reason = fmt::format("{}: {}", n->name, n->reason);
  return all;
}

void tell(pointer self) {
  auto& s = self->state;
  auto all = picture(s);
  s.was_ready = s.was_ready || all.phase == phase::ready;
  for (auto gateway : s.gateways)
    self->send(s.config.gateway(gateway), all);
  s.config.changed(all);
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

overview_actor::behavior_type overview(pointer self, overview_config config) {
  actors::install_fault_handlers(self);
  self->state.config = std::move(config);
  for (const auto& s : self->state.config.expected)
    self->state.nodes[s.node] = s;
  return {
      [self](const status& m) {
        auto& known = self->state.nodes[m.node];
        if (m.epoch < known.epoch)
          return; // from a life that is over
        auto restarts = std::max(known.restarts, m.restarts);
        known = m;
        known.restarts = restarts;
        tell(self);
      },
      [self](const asked& m) {
        auto all = picture(self->state);
        all.request = m.what.request;
        self->state.config.send_to_client(m.who, all);
      },
      [self](const load_report& m) { self->state.load = m; },
      [self](const actors::peer_up& m) {
        if (m.peer.role != role::gateway)
          return;
        std::erase(self->state.gateways, m.peer.node);
        self->state.gateways.push_back(m.peer.node);
        tell(self);
      },
      [self](const actors::peer_down& m) { std::erase(self->state.gateways, m.node); },
      [](const actors::tick&) {},
  };
}

} // namespace baton::cluster
