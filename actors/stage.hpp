// One shard's end of the pipeline: runs the engine over each micro-batch and passes it on, or
// samples and answers. What the last stage draws goes to the first as well, whose next micro-batch
// may be there already and wait for those tokens alone.
#pragma once

#include "actors/interfaces.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/schedule/token_feed.hpp"

#include <memory>

namespace baton::actors {

struct stage_config {
  stage_index stage = 0;
  std::uint32_t stages = 1;
  node_id head; // when its link comes up, the stage announces itself
  scheduler_actor scheduler;
  directory peers;
  // Asks this process for a link to another stage.
  std::function<void(const stage_address&)> connect;
  stage_ready announcement;                  // as sent to the scheduler
  std::shared_ptr<engine::engine> engine;    // used by this actor alone
  std::function<std::uint64_t()> now_micros; // steady clock, for stage_micros
};

//   announced --open_epoch--> linking --peer_up(listeners)--> open --open_epoch(newer)--> linking
//       ^                        |                              |
//       +------------------------+---- peer_down(listener) -----+   (announces itself again)
//   Listeners: the next stage and the first. A stage that is alone has none: open_epoch opens it.
//   micro_batch of another epoch than the open one: dropped and counted.
struct stage_state {
  static inline const char* name = "stage";
  stage_config config;
  open_epoch current; // the epoch we are in, or linking for
  bool is_open = false;
  std::vector<hello> linked; // peers that are up now
  schedule::token_feed feed; // of stage 0
  std::uint64_t stale_batches = 0;
};

stage_actor::behavior_type stage(stage_actor::stateful_pointer<stage_state> self,
                                 stage_config config);

} // namespace baton::actors
