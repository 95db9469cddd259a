// The sequences of all tickets, their slots and their KV blocks: start, preemption, swap, the
// prefix cache, and release. Decides nothing about steps and sends nothing. Pure.
#pragma once

#include "runtime/schedule/context/scheduler_context.hpp"
#include "runtime/schedule/kv/blocks.hpp"
#include "runtime/schedule/kv/kv_move.hpp"
#include "runtime/schedule/kv/state_slots.hpp"
#include "runtime/schedule/sequences/sequence_lists.hpp"

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace baton::schedule {

// Copies to and from swap space that the next micro-batch carries, and their sequences.
struct pending_copies {
  std::vector<block_copy> copies;
  std::vector<service_order> of;
};

// The slots that a step reads and writes; 0 for a model without states.
struct step_states {
  state_slot from = 0;
  state_slot to = 0;
};

class sequence_table {
public:
  // In order of service; an ended one stays while in flight.
  using sequences = std::map<service_order, sequence>;

  // `context` outlives the table.
  explicit sequence_table(scheduler_context& context);

  // -- the sequences. After each change of one, call update() for it.
  template <class... Args>
  auto try_emplace(const service_order& who, Args&&... args) {
    return all_.try_emplace(who, std::forward<Args>(args)...);
  }
  sequences& all() noexcept { return all_; }
  const sequences& all() const noexcept { return all_; }
  sequence* find(const service_order& who);
  // Calls `what` for the known sequences of the ticket; it may end them, and the ticket with them.
  void for_choices(std::int32_t priority, ticket_id id, const std::function<void(sequence&)>& what);
  // Whether the ticket has sequences: open ones, or ended ones in flight.
  bool has_choices(std::int32_t priority, ticket_id id) const {
    const auto first = all_.lower_bound({priority, {id, 0}});
    return first != all_.end() && first->second.id.ticket == id;
  }
  void update(sequence& s) { lists_.update(s); }
  void came_back(sequence& s, batch_id batch) { lists_.came_back(s, batch); }
  // Deletes ended sequences that are no longer in flight.
  void sweep();
  const sequence_lists& lists() const noexcept { return lists_; }
  const block_manager& blocks() const noexcept { return blocks_; }
  const state_slots& states() const noexcept { return states_; }
  std::uint32_t running_count() const noexcept {
    return static_cast<std::uint32_t>(lists_.running().size());
  }
  // Whether a sequence of so many ids could draw another one, with all blocks to itself.
  bool fits(std::size_t ids) const;

  // -- slots and blocks
  // Gives it a slot and blocks. False: it keeps waiting.
  bool start(sequence& s);
  // Provides blocks for all expected ids. False: not now, or it was preempted itself.
  bool make_room(sequence& s);
  // Adds blocks for draft tokens, if no other sequence needs them.
  bool grow_for_drafts(sequence& s);
  // Takes over blocks of the prefix cache.
  void reuse_prefix(sequence& s);
  // Whether its next step gets a slot for its state, and that slot. Requires: it runs.
  bool may_issue_state(const sequence& s) const;
  std::optional<step_states> issue_state(sequence& s);
  // Marks `rows` more rows as valid; their step wrote `state`.
  void acknowledge(sequence& s, std::size_t rows, state_slot state);
  // The step that wrote `state` does not count.
  void discard(const sequence& s, state_slot state);
  // From running to waiting; its blocks are released once nothing of it is in flight.
  void put_back(sequence& s);
  // Releases what nothing in flight uses any more. To be called when its state changes, and when
  // a step of it lands.
  void settle(sequence& s);
  // Its copies may not have been made: it starts again from its log.
  void lose_copies(sequence& s);
  pending_copies take_copies() { return std::exchange(pending_, {}); }

  // -- epochs
  // No step is in flight any more, and swap space is lost: back to the acknowledged rows.
  void close_epoch();
  // No stage has any keys, values and states. Requires: the pipeline's new shape.
  void forget_kv();
  // No result of the last epoch is accepted any more.
  void forget_late_states() { states_.forget_ahead(); }
  void offer_swap() { blocks_.offer_swap(shape_.swap_blocks); }
  // The blocks with contents that may be needed again.
  std::vector<held_block> held_blocks() const;

  // Checks lists, blocks, states, and the copies that are counted in `copying`; else the process
  // ends.
  void check_integrity(std::map<service_order, std::uint32_t> copying) const;

private:
  bool can_preempt_for(const sequence& s) const;
  void give_up_kept_state();
  void settle_states(const sequence& s);
  void check_states(const sequence& s) const;
  // Whether `s` would exceed the token budget beside the running sequences.
  bool passes_budget(const sequence& s, std::uint64_t running_potential) const noexcept {
    const auto most = config_.max_batch_total_tokens;
    return most != 0 && running_potential + s.potential_tokens() > most;
  }
  bool has_pending_releases() const noexcept { return lists_.leaving() > 0; }
  sequence* last_running();
  void preempt(sequence& s);
  void swap_out(sequence& s);
  void swap_in(sequence& s);
  void forget_swapped(sequence& s);

  const scheduler_config& config_;
  const pipeline_shape& shape_;
  load_report& totals_;
  sequences all_;
  sequence_lists lists_;
  block_manager blocks_;
  state_slots states_;
  pending_copies pending_;
};

} // namespace baton::schedule
