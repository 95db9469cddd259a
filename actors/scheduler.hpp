// The scheduler actor: connects the pure scheduler and the pipeline's lifecycle to messages and
// time. It owns tickets, the sequence log and the KV manager; every ticket ends here, once.
#pragma once

#include "actors/epoch_retries.hpp"
#include "actors/interfaces.hpp"
#include "actors/pipeline.hpp"
#include "actors/reservations.hpp"
#include "actors/trial_step.hpp"
#include "runtime/schedule/scheduler.hpp"

#include <optional>
#include <set>

namespace baton::actors {

struct scheduler_options {
  schedule::scheduler_config limits;
  generations plan; // as recorded when this incarnation of the head began; the root sends updates
  epoch_id first_epoch; // of the pipeline: above any epoch of earlier incarnations of the head
  detokenizer_actor detokenizer;
  directory peers;
  model_card card; // sent to gateways; phase and reason are filled in here
  std::function<void(const load_report&)> report; // to the root
  std::function<void(phase, const std::string& reason)>
      report_status; // state of this process, on change
  // An epoch of this generation is open: reported to the root, and again after each plan.
  std::function<void(std::uint32_t generation)> serves = [](std::uint32_t) {};
  std::function<schedule::time_point()> now;
};

// A step that is not back after this time is lost or hangs: the epoch is closed and a new one
// opened, which requires answers from all stages. Far above any step: a chunk of a large model on
// few cores takes seconds.
inline constexpr std::chrono::milliseconds step_timeout{60'000};
// The same for an epoch that does not open: opening computes nothing and at most copies KV.
inline constexpr std::chrono::milliseconds opening_timeout{20'000};

// Interval of load reports to gateways and root; also the resolution of the deadlines.
inline constexpr std::chrono::milliseconds report_interval{250};

struct scheduler_state {
  static inline const char* name = "scheduler";
  scheduler_options options;
  std::optional<schedule::scheduler> core;
  std::optional<baton::actors::pipeline> pipeline;
  std::optional<baton::actors::reservations> reservations; // of `core`
  epoch_retries retries;
  std::string why_lost; // reported by a stage before it asks for a new epoch
  trial_step trial;
  std::set<process_id> gateways;
  schedule::time_point reported_at{};
  schedule::time_point closed_at{};
  schedule::time_point stepped_at{}; // when a step came back, or nothing was in flight
  schedule::time_point opening_at{}; // when the last open_epoch was sent
  std::uint64_t epochs = 0;
  std::uint64_t recoveries = 0;
  double recovery_seconds = 0;
  std::vector<std::uint64_t> busy_micros; // per stage, in total
  std::uint64_t busy_reported = 0;        // sum over stages at the last report
  bool was_open = false;
  bool is_draining = false;
};

using scheduler_pointer = scheduler_actor::stateful_pointer<scheduler_state>;

// scheduler.cpp has tickets and steps, scheduler_epochs.cpp the lifecycle of the pipeline,
// scheduler_status.cpp the reports.
scheduler_actor::behavior_type scheduler(scheduler_pointer self, scheduler_options options);

} // namespace baton::actors
