// The life of the pipeline as the scheduler actor sees it: which shards are there, and the epoch
// that binds them. A stage has as many shards, its ranks, as its generation is wide; each has a
// seat of its own, and to lose one is to lose the stage. Pure.
//
//   waiting --every shard is ready--> opening --every shard has opened--> open
//      ^                                 |                                  |
//      +------- a shard went down, or announced itself again --------------+      (the epoch is
//      closed)
//
// While the plan changes there are two generations, each with all seats:
//
//   the serving one --every seat of the coming one is ready--> due --nothing in flight--> the
//   coming
//      ^                                                        |                          one
//      |<--------- a seat of the coming one is lost ------------+                           |
//      |<--------- ... or lost, or given up, before the plan names it as the serving one ---+
//
// Which of them has the epochs is decided here alone; which of them there are, by the root.
//
// Whoever switches over finds the KV as the last epoch left it: the shards of the other generation
// are told whose it was, and take it before they open. After any other end of an epoch nobody knows
// what of the last step has been written.
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
  // An order for one shard.
  struct order {
    node_id node;
    open_epoch what;
  };

  // Of one generation. Epochs are numbered from `first` on; give each life of the head a
  // higher one.
  pipeline(const baton::generation& only, epoch_id first);

  // The root's word. What has been said by shards of a generation that stays or comes is not
  // forgotten. True if that closed an epoch: its generation is over.
  bool set_plan(const generations& plan);
  // Every shard of the coming generation is ready: issue nothing more, and once what is in flight
  // has landed, switch over.
  bool is_switch_due() const;
  // Requires: due. The epoch that was opening or open is closed; the next one is the coming
  // generation's.
  void switch_over();

  // A shard of this node is linked or gone. on_down: true if that closed an epoch that was opening
  // or open.
  void on_up(const hello& shard);
  bool on_down(node_id node);
  // Errors: version_mismatch (another model file, other blocks per position), invalid_value (no
  // such stage or rank). `closed` says whether that ended an epoch: a shard that announces itself
  // has forgotten the one it was in.
  struct announced {
    bool closed = false;
  };
  result<announced> on_ready(const stage_ready& stage);
  // The shards, each in its life, that an epoch can be opened with now; none if one is missing, or
  // an epoch is under way.
  std::vector<std::pair<node_id, epoch_id>> openable() const;
  // Orders for all of these.
  std::vector<order> open_if_complete();
  // True if this was the last: the pipeline is open now.
  bool on_opened(const epoch_opened& m);
  // Gives up the epoch that is opening or open, with the same stages: some answer never came.
  void abandon() { close(); }

  state current() const noexcept { return state_; }
  // No node has its layers, nor will have them: it serves again when the plan changes.
  bool is_off() const noexcept { return lines_.size() == 1 && line().is_empty; }
  epoch_id epoch() const noexcept { return epoch_; }
  // The one that has the epochs, the ranks of each of its stages, and these.
  std::uint32_t generation() const noexcept { return line().number; }
  std::uint32_t width() const noexcept { return line().width; }
  std::uint32_t stages() const noexcept {
    return static_cast<std::uint32_t>(line().seats.size()) / line().width;
  }
  // Requires: not waiting. The blocks that every shard has room for, also in its swap space, and
  // their size.
  std::uint32_t blocks() const;
  std::uint32_t swap_blocks() const;
  std::uint32_t block_positions() const;
  bool pools() const;          // whether every shard runs the steps of an embedding
  node_id first_stage() const; // its rank 0
  // Requires: open. Whether a shard of the last epoch that was open has another life since, or has
  // not come back.
  bool has_new_life() const noexcept { return has_new_life_; }
  // Requires: open. Whether every shard has the KV of the last epoch that was open: it is the same
  // process, its memory outlived it, or it has taken over what shards of another generation had.
  bool keeps_kv() const noexcept { return keeps_kv_; }
  // "waiting for the shard of stage 1"
  std::string reason() const;

private:
  struct seat {
    std::optional<stage_ready> ready;
    bool has_opened = false;
    bool has_taken = false;
  };
  struct lineup { // the shards of a generation
    std::uint32_t number = 0;
    std::uint32_t width = 1;
    std::vector<seat> seats; // [stage * width + rank]; never empty
    bool is_empty = false;   // nobody will take them: no node has its layers
  };
  static lineup lineup_of(const baton::generation& g);
  struct member { // of the last epoch that was open
    node_id node;
    epoch_id life;
    std::uint64_t kv_life = 0;
  };
  const lineup& line() const noexcept { return lines_[current_]; }
  lineup* line_of(std::uint32_t generation);                               // null: there is none
  static seat* seat_of(lineup& of, stage_index stage, std::uint32_t rank); // null: there is none
  const hello* linked(node_id node) const;
  bool is_complete(const lineup& l) const;
  static bool is_member(const seat& s, const member& m); // the same process
  bool are_members(const lineup& l) const;
  std::size_t line_to_open() const;
  std::optional<kv_handover> left_kv() const;
  bool has_kv_of_members(const lineup& l) const;
  std::uint32_t least(std::uint32_t stage_ready::*room) const;
  bool close();

  std::vector<lineup> lines_;      // the serving one, then, if there is one, the coming one
  std::size_t current_ = 0;        // of lines_
  std::vector<stage_ready> early_; // of generations that the root has not told of yet
  std::vector<hello> linked_;
  state state_ = state::waiting;
  epoch_id epoch_;
  std::vector<member> members_;
  std::uint32_t members_generation_ = 0;
  bool has_ended_well_ = false; // their epoch: what they have written is what was acknowledged
  bool has_new_life_ = false;
  bool keeps_kv_ = false;
};

} // namespace baton::actors
