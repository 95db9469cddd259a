#include "runtime/schedule/kv/state_slots.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <utility>

namespace baton::schedule {

std::size_t state_slots::holding::claim() const noexcept {
  switch (now) {
  case phase::runs:
    return std::max<std::size_t>(2, held());
  case phase::leaves:
    return held();
  case phase::waits:
    break;
  }
  return 0;
}

state_slots::state_slots(std::uint32_t slots) : holders_(slots) {
  for (state_slot slot = 1; slot <= slots; ++slot)
    free_.insert(free_.end(), slot);
}

std::size_t state_slots::owners() const {
  return static_cast<std::size_t>(std::count_if(
      owned_.begin(), owned_.end(), [](const auto& entry) { return entry.second.held() > 0; }));
}

state_slot state_slots::acknowledged(sequence_id id) const {
  const auto it = owned_.find(id);
  return it == owned_.end() ? 0 : it->second.acknowledged;
}

state_slot state_slots::last(sequence_id id) const {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return 0;
  return it->second.ahead.empty() ? it->second.acknowledged : it->second.ahead.back();
}

std::size_t state_slots::held(sequence_id id) const {
  const auto it = owned_.find(id);
  return it == owned_.end() ? 0 : it->second.held();
}

std::size_t state_slots::ahead(sequence_id id) const {
  const auto it = owned_.find(id);
  return it == owned_.end() ? 0 : it->second.ahead.size();
}

void state_slots::change(sequence_id id, phase to) {
  auto& own = owned_[id];
  claimed_ -= own.claim();
  own.now = to;
  claimed_ += own.claim();
}

void state_slots::keep(sequence_id id) {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return;
  change(id, phase::waits);
  for (const state_slot slot : std::exchange(it->second.ahead, {}))
    unhold(slot);
}

void state_slots::release(sequence_id id) {
  const auto it = owned_.find(id);
  if (it == owned_.end())
    return;
  keep(id);
  if (it->second.acknowledged != 0)
    unhold(it->second.acknowledged);
  owned_.erase(it);
}

state_slot state_slots::issue(sequence_id id) {
  auto& own = owned_.at(id);
  claimed_ -= own.claim();
  state_slot wanted = 0;
  if (!own.again.empty()) {
    wanted = own.again.front();
    own.again.pop_front();
  }
  own.ahead.push_back(take(wanted));
  claimed_ += own.claim();
  ENSURE(claimed_ <= total(), "{} state slots are claimed, of {}", claimed_, total());
  return own.ahead.back();
}

void state_slots::acknowledge(sequence_id id, state_slot slot) {
  auto& own = owned_.at(id);
  ENSURE(!own.ahead.empty() && own.ahead.front() == slot,
         "ticket {}: state slot {} is acknowledged out of order", id.ticket.value, slot);
  claimed_ -= own.claim();
  own.ahead.erase(own.ahead.begin());
  if (const auto former = std::exchange(own.acknowledged, slot); former != 0)
    unhold(former);
  claimed_ += own.claim();
}

void state_slots::discard(sequence_id id, state_slot slot) {
  auto& own = owned_.at(id);
  const auto it = std::find(own.ahead.begin(), own.ahead.end(), slot);
  ENSURE(it != own.ahead.end(), "ticket {}: state slot {} is not in flight", id.ticket.value, slot);
  claimed_ -= own.claim();
  own.ahead.erase(it);
  unhold(slot);
  claimed_ += own.claim();
}

void state_slots::forget_ahead() {
  for (auto& [id, own] : owned_) {
    claimed_ -= own.claim();
    own.again.assign(own.ahead.begin(), own.ahead.end());
    own.ahead.clear();
    for (const state_slot slot : own.again)
      unhold(slot);
    claimed_ += own.claim();
  }
}

void state_slots::publish(sequence_id id, prefix_id at, bool is_output) {
  auto& own = owned_.at(id);
  if (!snapshots_.try_emplace(at, own.acknowledged).second)
    return; // another sequence computed the same prefix
  const bool is_new = prefixes_.try_emplace(own.acknowledged, at).second;
  ENSURE(is_new, "state slot {} is behind two prefixes", own.acknowledged);
  if (!is_output)
    return;
  drop_snapshot(own.of_output);
  own.of_output = at;
}

void state_slots::adopt(sequence_id id, prefix_id at) {
  auto& own = owned_[id];
  ENSURE(own.ahead.empty(), "ticket {} adopts a prefix, in flight", id.ticket.value);
  const state_slot slot = snapshots_.at(at);
  claimed_ -= own.claim();
  hold(slot);
  if (const auto former = std::exchange(own.acknowledged, slot); former != 0)
    unhold(former);
  claimed_ += own.claim();
}

// Requires: free() > 0. `wanted` if that is free.
state_slot state_slots::take(state_slot wanted) {
  state_slot slot = 0;
  if (!free_.empty()) {
    const auto found = free_.contains(wanted) ? free_.find(wanted) : free_.begin();
    slot = *found;
    free_.erase(found);
  } else {
    ENSURE(!evictable_.empty(), "all {} state slots are held", total());
    slot = evictable_.begin()->second;
    drop_snapshot(prefixes_.at(slot));
    free_.erase(slot);
  }
  holders(slot) = 1;
  return slot;
}

void state_slots::hold(state_slot slot) {
  if (holders(slot)++ > 0)
    return;
  const auto since = evictable_since_.find(slot);
  ENSURE(since != evictable_since_.end(), "state slot {} is neither held nor a snapshot", slot);
  evictable_.erase(since->second);
  evictable_since_.erase(since);
}

void state_slots::unhold(state_slot slot) {
  if (--holders(slot) > 0)
    return;
  if (!prefixes_.contains(slot)) {
    free_.insert(slot);
    return;
  }
  evictable_.emplace(++clock_, slot);
  evictable_since_.emplace(slot, clock_);
}

// No effect if there is none.
void state_slots::drop_snapshot(prefix_id at) {
  const auto found = snapshots_.find(at);
  if (found == snapshots_.end())
    return;
  const state_slot slot = found->second;
  snapshots_.erase(found);
  prefixes_.erase(slot);
  const auto since = evictable_since_.find(slot);
  if (since == evictable_since_.end())
    return; // it is held
  evictable_.erase(since->second);
  evictable_since_.erase(since);
  free_.insert(slot);
}

std::vector<state_slot> state_slots::contents() const {
  std::vector<state_slot> all;
  for (state_slot slot = 1; slot <= total(); ++slot)
    if (!free_.contains(slot))
      all.push_back(slot);
  return all;
}

void state_slots::check_integrity() const {
  std::vector<std::uint32_t> holders(total() + 1);
  std::size_t claims = 0;
  for (const auto& [id, own] : owned_) {
    claims += own.claim();
    if (own.acknowledged != 0)
      ++holders.at(own.acknowledged);
    for (const state_slot slot : own.ahead) {
      ++holders.at(slot);
      ENSURE(holders_.at(slot - 1) == 1 && !prefixes_.contains(slot),
             "state slot {} is written and read by another", slot);
    }
  }
  ENSURE(claims == claimed_ && claimed_ <= total(), "{} state slots are claimed, {} counted, of {}",
         claims, claimed_, total());
  for (state_slot slot = 1; slot <= total(); ++slot) {
    const bool is_evictable = evictable_since_.contains(slot);
    ENSURE(holders[slot] == holders_[slot - 1], "state slot {} has {} holders, {} counted", slot,
           holders[slot], holders_[slot - 1]);
    ENSURE((holders[slot] > 0 ? 1 : 0) + (free_.contains(slot) ? 1 : 0) + (is_evictable ? 1 : 0) ==
               1,
           "state slot {} is in two states, or in none", slot);
    ENSURE(!is_evictable ||
               (prefixes_.contains(slot) && evictable_.at(evictable_since_.at(slot)) == slot),
           "state slot {} is kept for nothing", slot);
  }
  ENSURE(evictable_.size() == evictable_since_.size() && snapshots_.size() == prefixes_.size(),
         "{} state slots are evictable, {} known; {} snapshots, {} known", evictable_.size(),
         evictable_since_.size(), snapshots_.size(), prefixes_.size());
  for (const auto& [at, slot] : snapshots_)
    ENSURE(prefixes_.at(slot) == at && !free_.contains(slot), "state slot {} is not behind {}",
           slot, at);
}

} // namespace baton::schedule
