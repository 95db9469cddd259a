// One shard's end of the pipeline: runs the engine over each micro-batch and passes it on, or
// samples and answers.
#pragma once

#include "actors/interfaces.hpp"
#include "runtime/engine/engine.hpp"

#include <memory>

namespace baton::actors {

struct stage_config {
  stage_index stage = 0;
  std::uint32_t stages = 1;
  node_id head; // when its link comes up, the stage announces itself
  scheduler_actor scheduler;
  directory peers;
  std::function<void(const stage_address&)>
      connect;                               // asks this process for a link to the next stage
  stage_ready announcement;                  // as sent to the scheduler
  std::shared_ptr<engine::engine> engine;    // used by this actor alone
  std::function<std::uint64_t()> now_micros; // steady clock, for stage_micros
};

//   announced --open_epoch--> linking --peer_up(next)--> open --open_epoch(newer)--> linking
//       ^                        |                         |
//       +------------------------+-- peer_down(next) ------+   (announces itself again)
//   The last stage has nobody to link to: open_epoch opens it at once.
//   micro_batch of another epoch than the open one: dropped and counted.
struct stage_state {
  static inline const char* name = "stage";
  stage_config config;
  open_epoch current; // the epoch we are in, or linking for
  bool is_open = false;
  std::vector<hello> linked; // peers that are up now
  std::uint64_t stale_batches = 0;
};

stage_actor::behavior_type stage(stage_actor::stateful_pointer<stage_state> self,
                                 stage_config config);

} // namespace baton::actors
