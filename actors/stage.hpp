// One shard's end of the pipeline: runs the engine over each micro-batch and passes it on, or
// samples and answers. What the last stage draws goes to the first as well, whose next micro-batch
// may be there already and wait for those tokens alone.
//
// The shards of a stage are the ranks of a group. Rank 0 leads: it alone is sent the stage's
// micro-batches, hands each to the others before it runs it, and speaks for all of them. The others
// run what it runs, in its order, and say nothing.
#pragma once

#include "actors/interfaces.hpp"
#include "runtime/collective/group.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/schedule/sent_rows.hpp"
#include "runtime/schedule/token_feed.hpp"

#include <deque>
#include <memory>
#include <optional>

namespace baton::actors {

// From a stage to itself, where its engine may begin steps: all that came before it is heard.
struct run_next {};

} // namespace baton::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(baton::actors::run_next)

namespace baton::actors {

using own_stage_actor = stage_actor::extend<caf::reacts_to<run_next>>;

struct stage_config {
  stage_index stage = 0;
  std::uint32_t stages = 1;
  std::uint32_t rank = 0;
  std::uint32_t width = 1; // ranks of each stage
  node_id head;            // when its link comes up, the stage announces itself
  scheduler_actor scheduler;
  directory peers;
  // Asks this process for a link to another shard.
  std::function<void(const stage_address&)> connect;
  stage_ready announcement;                  // as sent to the scheduler
  std::shared_ptr<engine::engine> engine;    // used by this actor alone
  std::shared_ptr<collective::group> group;  // so is this; null where the width is 1
  std::function<std::uint64_t()> now_micros; // steady clock, for stage_micros
  // Takes over what shards of another generation have; null: nothing is to be had.
  std::function<result<void>(const kv_handover&)> take_over;
};

//   announced --open_epoch--> linking --peer_up(listeners)--> open --open_epoch(newer)--> linking
//       ^                        |                              |
//       +------------------------+---- peer_down(listener), ----+   (rank 0 announces itself again,
//                                      a step lost the group         the others wait for
//                                      open_epoch)
//   Where the engine may begin steps (engine::begin), micro-batches wait in `ready`: as many as it
//   takes are begun, and while it is busy with the first one the mailbox is heard, in which the
//   next one or its tokens may come.
//
//   Listeners, of rank 0: the other ranks, and those of the next stage and the first. Who has none
//   is opened by open_epoch. micro_batch of another epoch than the open one: dropped and counted.
struct stage_state {
  static inline const char* name = "stage";
  stage_config config;
  open_epoch current; // the epoch we are in, or linking for
  bool is_open = false;
  bool is_lost = false;                    // the current epoch: it does not open again
  epoch_id entered;                        // of the group
  bool has_taken = false;                  // the KV that the epoch began with
  std::vector<hello> linked;               // peers that are up now
  schedule::token_feed feed;               // of stage 0
  std::deque<micro_batch> ready;           // of an engine that begins; few: all are in flight
  std::size_t begun = 0;                   // of those, the first
  std::uint64_t busy_since = 0;            // since when the engine is busy with the first of them
  std::optional<batch_id> begun_in_feed;   // begun behind all of those, and waits for its tokens
  bool is_next_refused = false;            // the one behind them is not begun, but run in its turn
  bool will_run_next = false;              // a run_next is on the way
  std::optional<schedule::sent_rows> sent; // of stage 0, if others follow and it is no group
  std::uint64_t stale_batches = 0;
};

own_stage_actor::behavior_type stage(own_stage_actor::stateful_pointer<stage_state> self,
                                     stage_config config);

} // namespace baton::actors
