// The parts of the scheduler share its settings, the state of the pipeline, and totals.
#pragma once

#include "runtime/schedule/context/scheduler_config.hpp"
#include "schema/load_report.hpp"

#include <optional>
#include <string>

namespace baton::schedule {

// Why the last epoch closed, as known when the next one opens. Sequences in flight become suspects
// only after the death of a shard, not after a link failure between live ones.
enum class loss : std::uint8_t { link, shard };
// Whether every stage still has the keys and values of all acknowledged rows.
enum class kv_fate : std::uint8_t { lost, kept };

// The parameters that all stages of an epoch share.
struct pipeline_shape {
  std::uint32_t stages = 1; // as many micro-batches run at a time
  std::uint32_t blocks = 0; // KV blocks, the minimum over all stages
  std::uint32_t block_positions = 64;
  std::uint32_t swap_blocks = 0; // the minimum over all stages
  bool pools = true;             // all stages run the steps of an embedding
  std::uint32_t state_slots =
      0; // of recurrent states, the minimum over all stages; 0: no such state
};

struct pipeline_state {
  pipeline_shape shape;
  std::optional<epoch_id> epoch; // none: no epoch is open
  epoch_id last_epoch;
  std::optional<time_point> closed_at; // none: open, or never opened
  std::string why_closed;

  bool is_unloaded() const noexcept { return !epoch && !closed_at; } // or never opened
  // Whether it was lost for longer than `recovery_timeout`; 0: never.
  bool has_given_up(time_point now, std::chrono::milliseconds recovery_timeout) const {
    return !epoch && closed_at && recovery_timeout.count() > 0 &&
           now - *closed_at >= recovery_timeout;
  }
  std::string with_cause(const std::string& what) const {
    return why_closed.empty() ? what : what + ": " + why_closed;
  }
};

struct scheduler_context {
  const scheduler_config config;
  pipeline_state pipeline;
  load_report totals{}; // each part adds what it counts
};

} // namespace baton::schedule
