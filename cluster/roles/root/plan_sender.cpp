#include "cluster/roles/root/plan_sender.hpp"

#include "actors/interfaces.hpp"

#include <nlohmann/json.hpp>

namespace baton::cluster {

void plan_sender::send_to(process_id who, const plan_update& w) {
  for (const auto& shards : w.shards)
    if (who == process_ids::head(shards.pipeline)) {
      links_.send(who, actors::well_known::scheduler, message(shards));
      return;
    }
  send_joined_to(who, w);
  for (const auto& shards : w.shards)
    links_.send(who, actors::well_known::supervisor, message(shards));
}

void plan_sender::send_joined_to(process_id agent, const plan_update& w) {
  if (join_ != nullptr)
    links_.send(agent, actors::well_known::supervisor,
                joined{json_of(w.known).dump(), recorded_keys(dir_).text(), text_of(w.nodes)});
}

void plan_sender::on_joined_confirmed(process_id agent, const joined& m,
                                      const std::vector<agent_plan>& agents) {
  if (join_ == nullptr)
    return;
  for (const auto& a : agents)
    if (a.process == agent)
      join_->on_keys_confirmed(a.on, machine_keys::from(m.keys));
}

void plan_sender::publish(const plan_update& w) {
  for (const auto& shards : w.shards) {
    if (join_ != nullptr)
      join_->change(shards);
    send_to(process_ids::head(shards.pipeline), w);
  }
  for (const auto& a : w.agents)
    send_to(a.process, w);
}

} // namespace baton::cluster
