// The scheduler actor: the pure scheduler and the pipeline's life, given messages, time and
// somebody to send to. It owns tickets, the sequence log and the KV account; every ticket ends
// here, once.
#pragma once

#include "actors/epoch_retries.hpp"
#include "actors/interfaces.hpp"
#include "actors/pipeline.hpp"
#include "actors/request_log.hpp"
#include "runtime/schedule/scheduler.hpp"

#include <optional>
#include <set>

namespace baton::actors {

struct scheduler_options {
  schedule::scheduler_config limits;
  generations plan;     // as noted when this life of the head began; the root says more
  epoch_id first_epoch; // of the pipeline: above any that an earlier life of the head used
  detokenizer_actor detokenizer;
  directory peers;
  model_card card; // what gateways are told; phase and reason are filled in here
  std::function<void(const load_report&)> report; // to the root
  std::function<void(phase, const std::string& reason)>
      stands; // how this process stands, on change
  // An epoch of this generation is open: told to the root, and again whenever it says its word.
  std::function<void(std::uint32_t generation)> serves = [](std::uint32_t) {};
  std::function<schedule::time_point()> now;
};

// A step that is not back after this time is lost, or hangs: the epoch is closed and another one
// opened, which only stages that answer can do. Far above any step: a chunk of a large model on few
// cores takes seconds.
inline constexpr std::chrono::milliseconds step_timeout{60'000};
// The same of an epoch that some stage does not open: there is nothing to compute, at most KV to
// copy.
inline constexpr std::chrono::milliseconds opening_timeout{20'000};

// How often gateways and root hear of the load; also the grain of the deadlines.
inline constexpr std::chrono::milliseconds report_interval{250};

// Requests with a name that are remembered: as many as can run, the most that a configuration
// allows.
inline constexpr std::size_t named_requests_max = 16'384;

struct scheduler_state {
  static inline const char* name = "scheduler";
  scheduler_options options;
  std::optional<schedule::scheduler> core;
  std::optional<baton::actors::pipeline> line;
  std::optional<request_log> named;
  epoch_retries retries;
  std::string why_lost;           // as a stage says it, ahead of asking for another epoch
  std::optional<ticket_id> trial; // of ours: a step to see whether this epoch has any
  std::set<node_id> gateways;
  schedule::time_point reported_at{};
  schedule::time_point closed_at{};
  schedule::time_point stepped_at{}; // a step came back, or the first of none in flight went out
  schedule::time_point opening_at{}; // the last order to open an epoch went out
  std::uint64_t epochs = 0;
  std::uint64_t recoveries = 0;
  double recovery_seconds = 0;
  std::vector<std::uint64_t> busy_micros; // per stage, in all
  std::uint64_t busy_reported = 0;        // sum over stages at the last report
  bool was_open = false;
  bool is_draining = false;
};

scheduler_actor::behavior_type scheduler(scheduler_actor::stateful_pointer<scheduler_state> self,
                                         scheduler_options options);

} // namespace baton::actors
