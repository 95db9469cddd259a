#include "actors/pipeline.hpp"

#include <algorithm>

namespace baton::actors {

pipeline::pipeline(std::uint32_t stages, epoch_id first) : seats_(stages), epoch_(first) {
  ENSURE(stages > 0, "a pipeline has at least one stage");
}

const hello* pipeline::linked(node_id node) const {
  auto it =
      std::find_if(linked_.begin(), linked_.end(), [&](const hello& h) { return h.node == node; });
  return it == linked_.end() ? nullptr : &*it;
}

bool pipeline::close() {
  bool was_under_way = state_ != state::waiting;
  state_ = state::waiting;
  for (auto& s : seats_)
    s.has_opened = false;
  return was_under_way;
}

void pipeline::on_up(const hello& shard) {
  std::erase_if(linked_, [&](const hello& h) { return h.node == shard.node; });
  linked_.push_back(shard);
}

bool pipeline::on_down(node_id node) {
  std::erase_if(linked_, [&](const hello& h) { return h.node == node; });
  auto gone = std::find_if(seats_.begin(), seats_.end(),
                           [&](const auto& s) { return s.ready && s.ready->node == node; });
  if (gone == seats_.end())
    return false;
  gone->ready.reset();
  return close();
}

result<pipeline::announced> pipeline::on_ready(const stage_ready& stage) {
  if (stage.stages != seats_.size() || stage.stage >= seats_.size())
    return fail(errc::invalid_value, "stage {} of {} does not belong to a pipeline of {}",
                stage.stage, stage.stages, seats_.size());
  for (const auto& s : seats_)
    if (s.ready && s.ready->stage != stage.stage &&
        (s.ready->model_hash != stage.model_hash ||
         s.ready->block_positions != stage.block_positions))
      return fail(errc::version_mismatch, "stage {} has loaded another model than stage {}",
                  stage.stage, s.ready->stage);
  seats_[stage.stage].ready = stage;
  return announced{close()};
}

std::vector<pipeline::order> pipeline::open_if_complete() {
  if (state_ != state::waiting)
    return {};
  std::vector<stage_address> addresses;
  for (const auto& s : seats_) {
    const auto* peer = s.ready ? linked(s.ready->node) : nullptr;
    if (!peer || peer->epoch != s.ready->node_epoch)
      return {};
    addresses.push_back({peer->node, peer->epoch, peer->endpoint});
  }
  state_ = state::opening;
  ++epoch_.value;
  std::vector<order> orders;
  for (stage_index i = 0; i < seats_.size(); ++i)
    orders.push_back({addresses[i].node, {epoch_, i, addresses}});
  return orders;
}

bool pipeline::on_opened(const epoch_opened& m) {
  if (state_ != state::opening || m.epoch != epoch_ || m.stage >= seats_.size())
    return false;
  seats_[m.stage].has_opened = true;
  if (!std::all_of(seats_.begin(), seats_.end(), [](const seat& s) { return s.has_opened; }))
    return false;
  state_ = state::open;
  has_new_life_ = false;
  keeps_kv_ = true;
  for (auto& s : seats_) {
    const bool is_new = s.ready->node != s.last_node || s.ready->node_epoch != s.last_life;
    has_new_life_ |= is_new;
    keeps_kv_ &= !is_new || (s.ready->kv_life != 0 && s.ready->kv_life == s.last_kv_life);
    s.last_node = s.ready->node;
    s.last_life = s.ready->node_epoch;
    s.last_kv_life = s.ready->kv_life;
  }
  return true;
}

std::uint32_t pipeline::least(std::uint32_t stage_ready::*room) const {
  ENSURE(state_ != state::waiting, "no epoch is under way");
  std::uint32_t least = UINT32_MAX;
  for (const auto& s : seats_)
    least = std::min(least, (*s.ready).*room);
  return least;
}

std::uint32_t pipeline::blocks() const {
  return least(&stage_ready::blocks);
}

std::uint32_t pipeline::swap_blocks() const {
  return least(&stage_ready::swap_blocks);
}

std::uint32_t pipeline::block_positions() const {
  ENSURE(state_ != state::waiting, "no epoch is under way");
  return seats_[0].ready->block_positions;
}

node_id pipeline::first_stage() const {
  ENSURE(state_ != state::waiting, "no epoch is under way");
  return seats_[0].ready->node;
}

std::string pipeline::reason() const {
  for (stage_index i = 0; i < seats_.size(); ++i)
    if (!seats_[i].ready)
      return fmt::format("waiting for the shard of stage {}", i);
  return state_ == state::open ? "" : "opening a pipeline epoch";
}

} // namespace baton::actors
