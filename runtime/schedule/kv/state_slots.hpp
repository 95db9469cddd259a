// Accounting of the slots of recurrent states: free slots, those of each sequence, and snapshots of
// cached prefixes. A slot holds the whole state of one sequence at one position. The same at every
// stage. Called by the scheduler; makes no decisions.
#pragma once

#include "runtime/schedule/kv/prefix_index.hpp"
#include "schema/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

namespace baton::schedule {

// Numbered from 1. 0: the zero state before position 0.
using state_slot = std::uint32_t;

//          issue                    release, a snapshot
//   free ────────> held by 1.. ─────────────────────────> evictable
//    ^               │    ^                                 │ │
//    └── release ────┘    └──────────── adopt ──────────────┘ │
//    ^                                                        │
//    └──────────────── issue, the oldest first ───────────────┘
//
// A slot is written once after each issue. A sequence holds the slot of its acknowledged position,
// and one for each step in flight:
//
//   acknowledged ──step──> ahead[0] ──step──> ahead[1] ...
//        ^                    │
//        └────acknowledge─────┘   the former one is released
//
// Stages run steps in order. So a slot recorded as free may be issued at once, even if a step that
// reads it is still in flight. It is kept only for steps that may be redone.
//
// No deadlock. A sequence that runs claims two slots, or as many as it holds; one that stopped in
// flight claims what it holds. The claims never exceed the slots: a sequence starts only if two are
// unclaimed, and gets a third one only if that is unclaimed. An acknowledgement raises no claim.
// A running sequence that holds fewer than two therefore finds a slot outside the claims. That one
// is free, evictable, or of a waiting sequence, which gives it up. With nothing in flight each
// running sequence claims two, so the next one starts as soon as the slots suffice for it.
class state_slots {
public:
  using prefix_id = prefix_index::prefix_id;

  explicit state_slots(std::uint32_t slots = 0); // 0: the model has no such states

  bool exist() const noexcept { return total() > 0; }
  std::size_t total() const noexcept { return holders_.size(); }
  std::size_t free() const noexcept { // including evictable ones
    return free_.size() + evictable_.size();
  }
  std::size_t used() const noexcept { return total() - free(); }
  std::size_t unclaimed() const noexcept { return total() - claimed_; }
  bool can_run() const noexcept { return unclaimed() >= 2; } // one sequence more

  std::size_t owners() const; // sequences that hold slots

  // -- one sequence

  state_slot acknowledged(sequence_id id) const; // of its acknowledged position; 0: none
  state_slot last(sequence_id id) const;         // behind its last step: where its next one begins
  std::size_t held(sequence_id id) const;
  std::size_t ahead(sequence_id id) const; // of its steps in flight

  // It starts. Requires: can_run().
  void run(sequence_id id) { change(id, phase::runs); }
  // It does not run any more, but has steps in flight.
  void leave(sequence_id id) { change(id, phase::leaves); }
  // It waits, with nothing in flight: it keeps the acknowledged slot, until release().
  void keep(sequence_id id);
  void release(sequence_id id); // all
  // A slot for its next step. Requires: free() > 0; it runs, and holds fewer than two or one is
  // unclaimed.
  state_slot issue(sequence_id id);
  // The step that wrote `slot` is acknowledged: the former slot is released.
  void acknowledge(sequence_id id, state_slot slot);
  // That step is void.
  void discard(sequence_id id, state_slot slot);
  // The steps in flight when the last epoch closed will be redone. They get the same slots if these
  // are free then: stage 0 may still have the rows that it sent (activation_cache.hpp).
  void forget_ahead();

  // -- snapshots: slots that hold the state behind a cached prefix

  // The acknowledged slot serves other sequences from now on, as the state behind `at`. If that is
  // in the output, it replaces the sequence's former one there.
  void publish(sequence_id id, prefix_id at, bool is_output);
  bool has_snapshot(prefix_id at) const { return snapshots_.contains(at); }
  // The sequence continues behind `at` instead of its acknowledged position. Requires: there is a
  // snapshot, and none of its steps is in flight.
  void adopt(sequence_id id, prefix_id at);

  // The slots with contents that may be needed again. Requires: no step is in flight.
  std::vector<state_slot> contents() const;

  // Every slot is free, evictable, or held with the right reference count, and the claims are
  // those of the sequences; else the process ends.
  void check_integrity() const;

private:
  enum class phase : std::uint8_t { waits, runs, leaves };
  struct holding {
    state_slot acknowledged = 0;
    std::vector<state_slot> ahead;
    std::deque<state_slot> again; // of steps to redo; not held
    prefix_id of_output = 0;      // its last snapshot behind the prompt; 0: none
    phase now = phase::waits;

    std::size_t held() const noexcept { return ahead.size() + (acknowledged != 0 ? 1 : 0); }
    std::size_t claim() const noexcept;
  };

  void change(sequence_id id, phase to);
  state_slot take(state_slot wanted);
  void hold(state_slot slot);
  void unhold(state_slot slot);
  void drop_snapshot(prefix_id at);
  std::uint32_t& holders(state_slot slot) { return holders_.at(slot - 1); }

  std::vector<std::uint32_t> holders_; // [slot - 1]
  std::set<state_slot> free_;
  std::map<std::uint64_t, state_slot> evictable_;                 // by release time
  std::unordered_map<state_slot, std::uint64_t> evictable_since_; // the inverse map
  std::uint64_t clock_ = 0;
  std::unordered_map<prefix_id, state_slot> snapshots_;
  std::unordered_map<state_slot, prefix_id> prefixes_; // the inverse map
  std::unordered_map<sequence_id, holding> owned_;
  std::size_t claimed_ = 0;
};

} // namespace baton::schedule
