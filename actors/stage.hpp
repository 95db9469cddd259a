// One shard of the pipeline: runs the engine over each micro-batch and passes it on, or samples and
// answers. The last stage also sends drawn tokens to the first, whose next micro-batch may be
// waiting for them.
//
// The shards of a stage are the ranks of a group. Rank 0 leads: it alone receives the stage's
// micro-batches, sends each to the other ranks before it runs it, and answers for all of them. The
// others run the same batches in the same order, and do not answer.
#pragma once

#include "actors/interfaces.hpp"
#include "runtime/collective/group.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/schedule/steps/activation_cache.hpp"
#include "runtime/schedule/steps/token_feedback.hpp"

#include <deque>
#include <memory>
#include <optional>

namespace baton::actors {

// From a stage to itself, if its engine may begin steps: handled after all earlier messages.
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
  process_id head;         // when its link comes up, the stage announces itself
  scheduler_actor scheduler;
  directory peers;
  // Asks this process for a link to another shard.
  std::function<void(const stage_address&)> connect;
  stage_ready announcement;                  // sent to the scheduler
  std::shared_ptr<engine::engine> engine;    // used by this actor alone
  std::shared_ptr<collective::group> group;  // used by this actor alone; null if the width is 1
  std::function<std::uint64_t()> now_micros; // steady clock, for stage_micros
  // Takes over the KV of another generation's shards; null: not supported.
  std::function<result<void>(const kv_handover&)> take_over;
};

//   announced --open_epoch--> linking --peer_up(listeners)--> open --open_epoch(newer)--> linking
//       ^                        |                              |
//       +------------------------+---- peer_down(listener), ----+   (rank 0 announces itself again,
//                                      a step lost the group         the others wait for
//                                                                    open_epoch)
// If the engine may begin steps (engine::begin), micro-batches wait in `ready`. As many as it
// accepts are begun. While it is busy with the first one, the mailbox is processed, in which the
// next batch or its tokens may arrive.
//
// Listeners of rank 0: the other ranks, the next stage and the first. A shard without listeners is
// open after open_epoch. A micro_batch of another epoch is dropped and counted.
struct stage_state {
  static inline const char* name = "stage";
  stage_config config;
  open_epoch current; // the epoch that is open or linking
  bool is_open = false;
  bool is_lost = false;                  // the current epoch cannot be opened again
  epoch_id entered;                      // the epoch that the group has entered
  bool has_taken = false;                // whether KV was taken over for this epoch
  std::vector<hello> linked;             // peers that are up now
  schedule::token_feedback feed;         // of stage 0
  std::deque<micro_batch> ready;         // only if the engine begins steps; few: all are in flight
  std::size_t begun = 0;                 // the number of begun ones, from the front
  std::uint64_t busy_since = 0;          // since when the engine is busy with the first of them
  std::optional<batch_id> begun_in_feed; // begun behind all of them, and waits for its tokens
  bool is_next_refused = false;          // the engine refused to begin the one behind them
  bool will_run_next = false;            // a run_next is in the mailbox
  std::optional<schedule::activation_cache>
      sent; // of stage 0, if other stages follow and it has one rank
  std::uint64_t stale_batches = 0;
};

own_stage_actor::behavior_type stage(own_stage_actor::stateful_pointer<stage_state> self,
                                     stage_config config);

} // namespace baton::actors
