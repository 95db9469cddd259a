// The pipeline's lifecycle as seen by the scheduler actor: the present shards, and the epoch that
// binds them. Each stage has as many ranks as its generation is wide. Each shard fills one rank
// slot, and losing one shard loses the stage. Pure.
//
//   waiting --every shard is ready--> opening --every shard has opened--> open
//      ^                                 |                                  |
//      +------- a shard went down, or announced itself again --------------+   (closes the epoch)
//
// While the plan changes there are two generations, each with all its rank slots:
//
//   serving --every slot of coming is ready--> due --nothing in flight--> coming
//      ^                                        |                           |
//      |<------- a slot of coming is lost ------+                           |
//      |<------- lost or abandoned before the plan names it as serving -----+
//
// This class decides which of them has the epochs; the root decides which of them exist.
//
// A switch finds the KV as the last epoch left it: the shards of the other generation learn its
// owners and take it over before they open. After any other end of an epoch the effects of its last
// step are unknown.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace baton::actors {

class pipeline {
public:
  enum class state : std::uint8_t { waiting, opening, open };
  // A message for one shard.
  struct order {
    process_id process;
    open_epoch what;
  };

  // Starts with one generation. Epochs are numbered from `first`, which must grow with each
  // incarnation of the head.
  pipeline(const baton::generation& only, epoch_id first);

  // Applies the root's plan. Announcements of shards whose generation stays or comes are kept. True
  // if this closed an epoch, because its generation is over.
  bool set_plan(const generations& plan);
  // Every shard of the coming generation is ready: form no more batches, and switch over once
  // nothing is in flight.
  bool is_switch_due() const;
  // Requires: due. Closes the epoch that was opening or open; the next one belongs to the coming
  // generation.
  void switch_over();

  // The shard's link is up or down. on_down: true if that closed an epoch that was opening or open.
  void on_up(const hello& shard);
  bool on_down(process_id process);
  // Errors: version_mismatch (another model file, or other block size), invalid_value (no such
  // stage or rank, or a single slot for states). `closed`: this ended an epoch, because a shard
  // that announces itself has left the epoch that it was in.
  struct announced {
    bool closed = false;
  };
  result<announced> on_ready(const stage_ready& stage);
  // The incarnations of the shards with which an epoch can be opened now; empty if one is missing
  // or an epoch is under way.
  std::vector<std::pair<process_id, incarnation_id>> openable() const;
  // The messages that open an epoch with them.
  std::vector<order> open_if_complete();
  // True if this was the last one: the pipeline is open now.
  bool on_opened(const epoch_opened& m);
  // Closes the opening or open epoch, with the same stages: an answer is missing.
  void abandon() { close(); }

  state current() const noexcept { return state_; }
  // No node holds its layers, now or later: it serves again after the plan changes.
  bool is_off() const noexcept { return stage_sets_.size() == 1 && current_set().is_empty; }
  epoch_id epoch() const noexcept { return epoch_; }
  // The generation that has the epochs, the ranks of each of its stages, and its stages.
  std::uint32_t generation() const noexcept { return current_set().number; }
  std::uint32_t width() const noexcept { return current_set().width; }
  std::uint32_t stages() const noexcept {
    return static_cast<std::uint32_t>(current_set().rank_slots.size()) / current_set().width;
  }
  // Requires: not waiting. The number of blocks that every shard has room for, also in its swap
  // space, and their size; the number of recurrent states.
  std::uint32_t blocks() const;
  std::uint32_t swap_blocks() const;
  std::uint32_t state_slots() const;
  std::uint32_t block_positions() const;
  bool pools() const;             // whether every shard can run the steps of an embedding
  process_id first_stage() const; // its rank 0
  // Requires: open. Whether a shard of the previous open epoch was restarted or has not returned.
  bool has_restarted_shard() const noexcept { return has_restarted_shard_; }
  // Requires: open. Whether every shard has the KV of the previous open epoch. It may be the same
  // process, its memory may have survived, or it took over the KV of another generation.
  bool keeps_kv() const noexcept { return keeps_kv_; }
  // "waiting for the shard of stage 1"
  std::string reason() const;

private:
  struct rank_slot {
    std::optional<stage_ready> ready;
    bool has_opened = false;
    bool has_taken = false;
  };
  struct stage_set { // the shards of a generation
    std::uint32_t number = 0;
    std::uint32_t width = 1;
    std::vector<rank_slot> rank_slots; // [stage * width + rank]; never empty
    bool is_empty = false;             // no shards will come: no node has its layers
  };
  static stage_set stage_set_of(const baton::generation& g);
  struct member { // of the previous open epoch
    process_id process;
    incarnation_id incarnation;
    std::uint64_t kv_incarnation = 0;
  };
  const stage_set& current_set() const noexcept { return stage_sets_[current_]; }
  stage_set* find_stage_set(std::uint32_t generation); // null: unknown generation
  static rank_slot* rank_slot_of(stage_set& of, stage_index stage,
                                 std::uint32_t rank); // null: no such slot
  const hello* linked(process_id process) const;
  bool is_complete(const stage_set& l) const;
  static bool is_member(const rank_slot& s, const member& m); // the same process
  bool are_members(const stage_set& l) const;
  std::size_t stage_set_to_open() const;
  std::optional<kv_handover> left_kv() const;
  bool has_kv_of_members(const stage_set& l) const;
  std::uint32_t least(std::uint32_t stage_ready::*room) const;
  bool close();

  std::vector<stage_set> stage_sets_;    // the serving one, then the coming one, if any
  std::size_t current_ = 0;              // index into the sets
  std::vector<stage_ready> unannounced_; // of generations that the root has not announced yet
  std::vector<hello> linked_;
  state state_ = state::waiting;
  epoch_id epoch_;
  std::vector<member> members_;
  std::uint32_t members_generation_ = 0;
  bool has_ended_well_ = false; // their epoch: all they have written was acknowledged
  bool has_restarted_shard_ = false;
  bool keeps_kv_ = false;
};

} // namespace baton::actors
