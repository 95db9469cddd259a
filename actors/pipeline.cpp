#include "actors/pipeline.hpp"

#include "schema/limits.hpp"

#include <algorithm>

namespace baton::actors {

pipeline::stage_set pipeline::stage_set_of(const baton::generation& g) {
  ENSURE(g.width > 0, "a stage has at least one rank");
  const auto rank_slots = std::size_t{std::max(g.stages, 1u)} * g.width;
  return {g.number, g.width, std::vector<rank_slot>(rank_slots), g.stages == 0};
}

pipeline::pipeline(const baton::generation& only, epoch_id first)
    : stage_sets_{stage_set_of(only)}, epoch_(first) {}

pipeline::stage_set* pipeline::find_stage_set(std::uint32_t generation) {
  auto it = std::find_if(stage_sets_.begin(), stage_sets_.end(),
                         [&](const stage_set& l) { return l.number == generation; });
  return it == stage_sets_.end() ? nullptr : &*it;
}

pipeline::rank_slot* pipeline::rank_slot_of(stage_set& of, stage_index stage, std::uint32_t rank) {
  const auto at = std::size_t{stage} * of.width + rank;
  return rank < of.width && at < of.rank_slots.size() ? &of.rank_slots[at] : nullptr;
}

const hello* pipeline::linked(process_id process) const {
  auto it = std::find_if(linked_.begin(), linked_.end(),
                         [&](const hello& h) { return h.process == process; });
  return it == linked_.end() ? nullptr : &*it;
}

bool pipeline::is_complete(const stage_set& l) const {
  return std::all_of(l.rank_slots.begin(), l.rank_slots.end(), [&](const rank_slot& s) {
    const auto* peer = s.ready ? linked(s.ready->process) : nullptr;
    return peer != nullptr && peer->incarnation == s.ready->incarnation;
  });
}

bool pipeline::close() {
  bool was_under_way = state_ != state::waiting;
  state_ = state::waiting;
  for (auto& l : stage_sets_)
    for (auto& s : l.rank_slots)
      s.has_opened = s.has_taken = false;
  return was_under_way;
}

bool pipeline::set_plan(const generations& plan) {
  const auto before = generation();
  std::vector<stage_set> stage_sets;
  const auto take = [&](const baton::generation& g) {
    if (auto* known = find_stage_set(g.number))
      stage_sets.push_back(std::move(*known));
    else
      stage_sets.push_back(stage_set_of(g));
  };
  take(plan.serving);
  if (plan.coming)
    take(*plan.coming);
  stage_sets_ = std::move(stage_sets);
  current_ = stage_sets_.size() == 2 && stage_sets_[1].number == before ? 1 : 0;
  const bool closed = generation() != before && close();
  for (const auto& stage : std::exchange(unannounced_, {}))
    (void)on_ready(stage); // it was not checked yet
  return closed;
}

bool pipeline::is_switch_due() const {
  return stage_sets_.size() == 2 && current_ == 0 && is_complete(stage_sets_[1]);
}

void pipeline::switch_over() {
  ENSURE(is_switch_due(), "generation {} is not ready", generation());
  has_ended_well_ |= state_ == state::open;
  close();
  current_ = 1;
}

void pipeline::on_up(const hello& shard) {
  std::erase_if(linked_, [&](const hello& h) { return h.process == shard.process; });
  linked_.push_back(shard);
}

bool pipeline::on_down(process_id process) {
  std::erase_if(linked_, [&](const hello& h) { return h.process == process; });
  std::erase_if(unannounced_, [&](const stage_ready& r) { return r.process == process; });
  for (auto& l : stage_sets_)
    for (auto& s : l.rank_slots)
      if (s.ready && s.ready->process == process) {
        s.ready.reset();
        return &l == &current_set() && close();
      }
  return false;
}

result<pipeline::announced> pipeline::on_ready(const stage_ready& stage) {
  auto* of = find_stage_set(stage.generation);
  if (of == nullptr) { // over, or its announcement by the root is still on the way
    std::erase_if(unannounced_, [&](const stage_ready& r) { return r.process == stage.process; });
    if (unannounced_.size() < limits::stages_max)
      unannounced_.push_back(stage);
    return announced{};
  }
  auto* own = rank_slot_of(*of, stage.stage, stage.rank);
  if (!own || of->is_empty || stage.width != of->width ||
      std::size_t{stage.stages} * stage.width != of->rank_slots.size())
    return fail(errc::invalid_value,
                "rank {} of {} of stage {} of {} does not belong to a pipeline of {} stages of {}",
                stage.rank, stage.width, stage.stage, stage.stages,
                of->rank_slots.size() / of->width, of->width);
  if (stage.block_positions == 0)
    return fail(errc::invalid_value, "stage {} has KV blocks without positions", stage.stage);
  if (stage.state_slots == 1)
    return fail(errc::invalid_value,
                "stage {} has one slot for recurrent states, a sequence needs 2", stage.stage);
  for (const auto& l : stage_sets_)
    for (const auto& s : l.rank_slots)
      if (s.ready && &s != own &&
          (s.ready->model_hash != stage.model_hash ||
           s.ready->block_positions != stage.block_positions ||
           (s.ready->state_slots > 0) != (stage.state_slots > 0)))
        return fail(errc::version_mismatch, "stage {} has loaded another model than stage {}",
                    stage.stage, s.ready->stage);
  own->ready = stage;
  return announced{of == &current_set() && close()};
}

// The complete one; the coming one if both are.
std::size_t pipeline::stage_set_to_open() const {
  if (is_switch_due())
    return 1;
  return !is_complete(current_set()) && is_complete(stage_sets_[0]) ? 0 : current_;
}

std::vector<std::pair<process_id, incarnation_id>> pipeline::openable() const {
  const auto& next = stage_sets_[stage_set_to_open()];
  std::vector<std::pair<process_id, incarnation_id>> shards;
  if (state_ == state::waiting && is_complete(next))
    for (const auto& s : next.rank_slots)
      shards.emplace_back(s.ready->process, s.ready->incarnation);
  return shards;
}

std::vector<pipeline::order> pipeline::open_if_complete() {
  if (state_ != state::waiting)
    return {};
  current_ = stage_set_to_open();
  if (!is_complete(current_set()))
    return {};
  std::vector<stage_address> addresses;
  for (const auto& s : current_set().rank_slots) {
    const auto* peer = linked(s.ready->process);
    addresses.push_back({peer->process, peer->incarnation, peer->endpoint});
  }
  state_ = state::opening;
  ++epoch_.value;
  const auto takes = left_kv();
  std::vector<order> orders;
  for (const auto& s : current_set().rank_slots)
    orders.push_back({s.ready->process,
                      {.epoch = epoch_,
                       .stage = s.ready->stage,
                       .stages = addresses,
                       .rank = s.ready->rank,
                       .width = s.ready->width,
                       .takes = takes}});
  return orders;
}

// The KV that this generation can take over: empty if it is its own.
std::optional<kv_handover> pipeline::left_kv() const {
  if (!has_ended_well_ || members_generation_ == generation())
    return std::nullopt;
  kv_handover left;
  for (const auto& m : members_) {
    if (m.kv_incarnation == 0)
      return std::nullopt;
    left.kv_incarnations.push_back(m.kv_incarnation);
  }
  return left;
}

bool pipeline::is_member(const rank_slot& s, const member& m) {
  return s.ready && s.ready->process == m.process && s.ready->incarnation == m.incarnation;
}

bool pipeline::has_kv_of_members(const stage_set& l) const {
  if (members_.empty())
    return false;
  if (members_generation_ != l.number)
    return std::all_of(l.rank_slots.begin(), l.rank_slots.end(),
                       [](const rank_slot& s) { return s.has_taken; });
  return std::equal(l.rank_slots.begin(), l.rank_slots.end(), members_.begin(), members_.end(),
                    [](const rank_slot& s, const member& m) {
                      return is_member(s, m) || (s.ready->kv_incarnation != 0 &&
                                                 s.ready->kv_incarnation == m.kv_incarnation);
                    });
}

// Whether its shards are the processes of the previous open epoch.
bool pipeline::are_members(const stage_set& l) const {
  return std::equal(l.rank_slots.begin(), l.rank_slots.end(), members_.begin(), members_.end(),
                    is_member);
}

bool pipeline::on_opened(const epoch_opened& m) {
  auto& now = stage_sets_[current_];
  auto* own = rank_slot_of(now, m.stage, m.rank);
  if (state_ != state::opening || m.epoch != epoch_ || !own)
    return false;
  own->has_opened = true;
  own->has_taken = m.has_taken;
  if (!std::all_of(now.rank_slots.begin(), now.rank_slots.end(),
                   [](const rank_slot& s) { return s.has_opened; }))
    return false;
  state_ = state::open;
  // Shards stopped because their generation is over do not count as dead.
  const auto* before = find_stage_set(members_generation_);
  has_restarted_shard_ = members_.empty() || (before != nullptr && !are_members(*before));
  keeps_kv_ = has_kv_of_members(now);
  members_.clear();
  for (const auto& s : now.rank_slots)
    members_.push_back({s.ready->process, s.ready->incarnation, s.ready->kv_incarnation});
  members_generation_ = now.number;
  has_ended_well_ = false;
  return true;
}

std::uint32_t pipeline::least(std::uint32_t stage_ready::*room) const {
  ENSURE(state_ != state::waiting, "no epoch is under way");
  std::uint32_t least = UINT32_MAX;
  for (const auto& s : current_set().rank_slots)
    least = std::min(least, (*s.ready).*room);
  return least;
}

std::uint32_t pipeline::blocks() const {
  return least(&stage_ready::blocks);
}

std::uint32_t pipeline::swap_blocks() const {
  return least(&stage_ready::swap_blocks);
}

std::uint32_t pipeline::state_slots() const {
  return least(&stage_ready::state_slots);
}

bool pipeline::pools() const {
  ENSURE(state_ != state::waiting, "no epoch is under way");
  const auto& rank_slots = current_set().rank_slots;
  return std::all_of(rank_slots.begin(), rank_slots.end(),
                     [](const rank_slot& s) { return s.ready->pools; });
}

std::uint32_t pipeline::block_positions() const {
  ENSURE(state_ != state::waiting, "no epoch is under way");
  return current_set().rank_slots[0].ready->block_positions;
}

process_id pipeline::first_stage() const {
  ENSURE(state_ != state::waiting, "no epoch is under way");
  return current_set().rank_slots[0].ready->process;
}

std::string pipeline::reason() const {
  if (is_off())
    return "no node has its layers";
  const auto& [number, width, rank_slots, is_empty] = current_set();
  for (std::size_t i = 0; i < rank_slots.size(); ++i)
    if (!rank_slots[i].ready)
      return width == 1 ? fmt::format("waiting for the shard of stage {}", i)
                        : fmt::format("waiting for rank {} of stage {}", i % width, i / width);
  return state_ == state::open ? "" : "opening a pipeline epoch";
}

} // namespace baton::actors
