#include "runtime/schedule/sequences/sequence_table.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::schedule {

sequence_table::sequence_table(scheduler_context& context)
    : config_(context.config), shape_(context.pipeline.shape), totals_(context.totals) {}

sequence* sequence_table::find(const service_order& who) {
  const auto it = all_.find(who);
  return it == all_.end() ? nullptr : &it->second;
}

void sequence_table::for_choices(std::int32_t priority, ticket_id id,
                                 const std::function<void(sequence&)>& what) {
  auto it = all_.lower_bound({priority, {id, 0}});
  for (; it != all_.end() && it->second.id.ticket == id; ++it)
    what(it->second);
}

void sequence_table::sweep() {
  for (const service_order& who : lists_.take_finished())
    all_.erase(who);
}

bool sequence_table::fits(std::size_t ids) const {
  return ids < config_.max_model_len && blocks_.needed(ids) <= blocks_.total();
}

// Takes a slot, a share of the token budget and blocks for all known ids, so that a prefill never
// stops half way. Preempts running sequences with a higher priority number if necessary. Some
// blocks stay free for the decodes to grow into, unless no other sequence runs.
bool sequence_table::start(sequence& s) {
  const auto lacks_slot = [&] {
    return running_count() >= config_.max_num_seqs ||
           passes_budget(s, lists_.running_potential()) || (states_.exist() && !states_.can_run());
  };
  const auto lacks_blocks = [&] {
    constexpr std::size_t watermark_divisor = 100; // vLLM's watermark of 0.01
    const std::size_t watermark =
        running_count() == 0 ? 0 : 1 + blocks_.total() / watermark_divisor;
    const std::size_t missing = blocks_.needed(s.ids.size()) - blocks_.of(s.id).size();
    return missing + watermark > blocks_.free();
  };
  if (s.in_flight > 0 || (lacks_slot() && !can_preempt_for(s)))
    return false;
  reuse_prefix(s);
  while (lacks_slot() || lacks_blocks()) {
    if (has_pending_releases() || !can_preempt_for(s)) {
      settle(s); // the matched prefix is released again
      return false;
    }
    preempt(*last_running());
  }
  ENSURE(blocks_.grow(s.id, s.ids.size()), "blocks were free and are not");
  swap_in(s);
  s.state = sequence_state::running;
  if (states_.exist())
    states_.run(s.id);
  update(s);
  s.has_started = true;
  return true;
}

// Whether preempting less important sequences would free enough; otherwise they would stop in vain.
// Shared blocks count too, an error in favour of the more important sequence.
bool sequence_table::can_preempt_for(const sequence& s) const {
  std::size_t blocks = blocks_.free() + blocks_.of(s.id).size();
  bool has_any = false;
  auto potential = lists_.running_potential();
  const auto& running = lists_.running();
  for (auto it = running.rbegin(); it != running.rend() && it->first.priority > s.priority; ++it) {
    has_any = true;
    blocks += blocks_.of(it->first.id).size();
    potential -= it->second->potential_tokens();
  }
  return has_any && blocks_.needed(s.ids.size()) <= blocks && !passes_budget(s, potential);
}

// Takes over cached blocks. The results are bitwise equal: keys and values of a row depend only on
// the tokens up to it. A state is there for some prefixes alone, or waits in the sequence's slot.
void sequence_table::reuse_prefix(sequence& s) {
  if (!config_.enable_prefix_caching || s.in_flight > 0)
    return;
  // Every row of its prompt contributes to the result.
  if (s.terms.wants_embedding || s.wants_scores())
    return;
  const auto has_state = [&](prefix_index::prefix_id at, std::size_t positions) {
    return s.swapped > 0 ? positions <= s.swapped : states_.has_snapshot(at);
  };
  const std::size_t reached =
      blocks_.match_prefix(s.id, s.terms.cache_salt, s.ids, s.computed,
                           states_.exist() ? has_state : block_manager::end_of_prefix());
  if (states_.exist() && reached > s.computed && s.swapped == 0)
    states_.adopt(s.id, blocks_.published_prefix(s.id));
  s.cached += std::min(reached, s.prompt_count) - std::min(s.computed, s.prompt_count);
  s.computed = s.issued = reached;
  s.clear_if_computed();
}

void sequence_table::acknowledge(sequence& s, std::size_t rows, state_slot state) {
  s.computed += rows;
  if (states_.exist())
    states_.acknowledge(s.id, state);
  if (config_.enable_prefix_caching && s.computed - s.published >= shape_.block_positions) {
    blocks_.publish(s.id, s.terms.cache_salt, s.ids, s.computed);
    s.published = s.computed - s.computed % shape_.block_positions;
    if (states_.exist() && s.published == s.computed)
      states_.publish(s.id, blocks_.published_prefix(s.id), s.computed > s.prompt_count);
  }
  s.clear_if_computed();
}

void sequence_table::discard(const sequence& s, state_slot state) {
  if (states_.exist())
    states_.discard(s.id, state);
}

// More than two slots only if the next sequence in line finds its two nevertheless.
bool sequence_table::may_issue_state(const sequence& s) const {
  if (!states_.exist() || states_.held(s.id) < 2)
    return true;
  const bool is_next_awaited = !lists_.waiting().empty() &&
                               running_count() < config_.max_num_seqs &&
                               2 * (std::size_t{running_count()} + 1) <= states_.total();
  return states_.unclaimed() >= (is_next_awaited ? 3 : 1);
}

std::optional<step_states> sequence_table::issue_state(sequence& s) {
  if (!states_.exist())
    return step_states{};
  if (!may_issue_state(s))
    return std::nullopt;
  while (states_.free() == 0)
    give_up_kept_state();
  const auto from = states_.last(s.id);
  return step_states{from, states_.issue(s.id)};
}

// The last waiting sequence with a state is recomputed from its log, or from a cached prefix.
void sequence_table::give_up_kept_state() {
  for (auto it = all_.rbegin(); it != all_.rend(); ++it) {
    sequence& s = it->second;
    if (s.swapped == 0)
      continue;
    forget_swapped(s);
    settle_states(s);
    return;
  }
  ENSURE(false, "all {} state slots are held by running sequences", states_.total());
}

// A sequence that waits needs its state only together with its blocks in swap space.
void sequence_table::settle_states(const sequence& s) {
  if (!states_.exist() || s.state == sequence_state::running)
    return;
  if (s.in_flight > 0)
    states_.leave(s.id);
  else if (s.swapped > 0)
    states_.keep(s.id);
  else
    states_.release(s.id);
}

// Provides blocks for all expected ids of a running sequence, by preempting the last in order of
// service if necessary. False: not now, because blocks are about to be released or the sequence
// itself was preempted.
bool sequence_table::make_room(sequence& s) {
  while (!blocks_.grow(s.id, s.ids_expected())) {
    if (has_pending_releases())
      return false;
    sequence* last = last_running();
    ENSURE(last && running_count() > 1, "ticket {} does not fit into all {} blocks alone",
           s.id.ticket.value, blocks_.total());
    preempt(*last);
    if (last == &s)
      return false;
  }
  return true;
}

bool sequence_table::grow_for_drafts(sequence& s) {
  const bool needs_block = blocks_.needed(s.ids_expected()) > blocks_.of(s.id).size();
  return !needs_block || (blocks_.free() > running_count() && blocks_.grow(s.id, s.ids_expected()));
}

sequence* sequence_table::last_running() {
  return lists_.running().empty() ? nullptr : lists_.running().rbegin()->second;
}

void sequence_table::preempt(sequence& s) {
  s.is_leaving = true;
  ++totals_.preemptions;
  put_back(s);
}

// Back to waiting; results in flight still count, then the blocks are released.
void sequence_table::put_back(sequence& s) {
  s.state = sequence_state::waiting;
  settle(s);
  update(s);
}

// Saves the computed positions in swap space if it has room; not for a prompt alone.
void sequence_table::swap_out(sequence& s) {
  const std::size_t before = pending_.copies.size();
  if (s.computed == 0 || s.terms.wants_embedding || s.wants_scores() ||
      !blocks_.swap_out(s.id, s.computed, pending_.copies))
    return;
  s.swapped = s.computed;
  ++s.copying;
  pending_.of.push_back(s.service_order());
  totals_.swapped_out_blocks += pending_.copies.size() - before;
}

// Restores from swap space the positions that are not in the prefix cache.
void sequence_table::swap_in(sequence& s) {
  if (s.swapped > s.computed) {
    const std::size_t before = pending_.copies.size();
    blocks_.swap_in(s.id, s.computed, pending_.copies);
    s.computed = s.issued = s.swapped;
    ++s.copying;
    pending_.of.push_back(s.service_order());
    totals_.swapped_in_blocks += pending_.copies.size() - before;
  }
  forget_swapped(s);
}

void sequence_table::forget_swapped(sequence& s) {
  blocks_.forget_swapped(s.id);
  s.swapped = 0;
}

// Completes actions deferred until no step in flight uses the sequence's blocks.
void sequence_table::settle(sequence& s) {
  if (s.in_flight > 0)
    return settle_states(s);
  if (s.state != sequence_state::running) {
    if (s.state == sequence_state::ended)
      forget_swapped(s);
    else if (std::exchange(s.is_leaving, false))
      swap_out(s);
    settle_states(s);
    blocks_.release(s.id);
    s.computed = s.published = s.cached = 0;
    s.pooled.clear();
    if (s.wants_scores())
      s.scores.clear();
  }
  s.issued = s.computed;
  s.drawing = 0;
  s.drafts.clear();
  s.is_void = false;
}

// A stage may not have made the copies: only the log of the sequence remains valid.
void sequence_table::lose_copies(sequence& s) {
  if (s.state == sequence_state::ended)
    return;
  forget_swapped(s);
  s.is_leaving = false;
  s.is_void = true;
  s.state = sequence_state::waiting;
  settle(s);
  update(s);
}

void sequence_table::close_epoch() {
  pending_ = {};
  for (auto& [who, s] : all_) {
    s.in_flight = 0;
    s.is_leaving = false;
    if (std::exchange(s.copying, 0) > 0 || s.swapped > 0)
      lose_copies(s); // swap space ends with its process
    settle(s);        // reset to the acknowledged rows
    update(s);
  }
  sweep();
}

void sequence_table::forget_kv() {
  for (auto& [who, s] : all_) {
    if (s.state == sequence_state::running)
      s.state = sequence_state::waiting;
    settle(s);
    update(s);
  }
  blocks_ = block_manager(shape_.blocks, shape_.block_positions, blocks_.last_stamp());
  states_ = state_slots(shape_.state_slots);
}

// While a sequence returns from swap space, the stages may not have made its copies yet. A shared
// block is full if it is full for any of its sequences.
std::vector<held_block> sequence_table::held_blocks() const {
  std::map<block_index, bool> is_full;
  for (const auto& [who, s] : all_) {
    const auto blocks = blocks_.of(s.id);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      is_full[blocks[i]] |= s.copying == 0 && (i + 1) * shape_.block_positions <= s.computed;
  }
  for (const auto block : blocks_.evictable())
    is_full[block] = true;
  std::vector<held_block> all;
  all.reserve(is_full.size());
  for (const auto& [block, full] : is_full)
    all.push_back({block, blocks_.stamp(block), full});
  return all;
}

void sequence_table::check_integrity(std::map<service_order, std::uint32_t> copying) const {
  blocks_.check_integrity();
  states_.check_integrity();
  std::size_t state_owners = 0;
  lists_.check_integrity(all_);
  ENSURE(running_count() <= config_.max_num_seqs, "{} sequences run", running_count());
  ENSURE(config_.max_batch_total_tokens == 0 ||
             lists_.running_potential() <= config_.max_batch_total_tokens,
         "{} sequences may come to {} tokens", running_count(), lists_.running_potential());
  for (const service_order& who : pending_.of)
    ++copying[who];
  for (const auto& [who, s] : all_) {
    const sequence_id id = who.id;
    ENSURE(s.computed <= s.issued && s.issued <= s.ids_expected(), "ticket {}: {} of {} of {}",
           id.ticket.value, s.computed, s.issued, s.ids_expected());
    ENSURE(!s.wants_scores() || s.scores.size() == s.computed, "ticket {}: {} scores of {} rows",
           id.ticket.value, s.scores.size(), s.computed);
    ENSURE(s.in_flight > 0 || s.issued == s.computed, "ticket {}: issued, not in flight",
           id.ticket.value);
    ENSURE(s.in_flight > 0 || s.drafts.empty(), "ticket {}: guesses, not in flight",
           id.ticket.value);
    ENSURE(s.in_flight > 0 || s.state != sequence_state::ended, "ticket {} lingers",
           id.ticket.value);
    ENSURE(s.copying == (copying.contains(who) ? copying.at(who) : 0), "ticket {}: {} copies",
           id.ticket.value, s.copying);
    ENSURE(s.swapped == 0 || s.state == sequence_state::waiting, "ticket {}: swapped, not waiting",
           id.ticket.value);
    ENSURE(blocks_.swapped(id) == blocks_.needed(s.swapped), "ticket {}: {} positions swapped",
           id.ticket.value, s.swapped);
    const std::size_t blocks = blocks_.of(id).size();
    ENSURE(blocks >= blocks_.needed(s.issued), "ticket {}: blocks missing", id.ticket.value);
    ENSURE(blocks == 0 || s.in_flight > 0 || s.state == sequence_state::running,
           "ticket {} holds blocks for nothing", id.ticket.value);
    state_owners += states_.held(id) > 0 ? 1 : 0;
    if (states_.exist())
      check_states(s);
  }
  ENSURE(state_owners == states_.owners(), "{} sequences hold state slots, {} are known",
         states_.owners(), state_owners);
}

// After the end of an epoch a running sequence keeps the slots of late steps.
void sequence_table::check_states(const sequence& s) const {
  const bool holds_rows = s.in_flight > 0 || s.state == sequence_state::running;
  ENSURE((states_.acknowledged(s.id) != 0) == (holds_rows ? s.computed > 0 : s.swapped > 0),
         "ticket {}: state slot {} at {} positions, {} swapped", s.id.ticket.value,
         states_.acknowledged(s.id), s.computed, s.swapped);
  ENSURE(s.in_flight > 0 ? states_.ahead(s.id) == s.in_flight
                         : holds_rows || states_.ahead(s.id) == 0,
         "ticket {}: {} states ahead, {} steps in flight", s.id.ticket.value, states_.ahead(s.id),
         s.in_flight);
}

} // namespace baton::schedule
