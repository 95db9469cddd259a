// Requests for tickets and for resumed tickets, with the names that clients give to requests. Pure;
// time is an argument.
#pragma once

#include "actors/request_log.hpp"
#include "runtime/schedule/scheduler.hpp"

#include <string>
#include <variant>

namespace baton::actors {

// Named requests that are remembered: as many as a configuration can allow to run.
inline constexpr std::size_t named_requests_max = 16'384;

class reservations {
public:
  // `core` must outlive this object. `model` is the name that requests must have. `resume_window`:
  // how long a name outlives its ticket.
  reservations(schedule::scheduler& core, std::string model,
               std::chrono::milliseconds resume_window)
      : core_(core), model_(std::move(model)), named_(resume_window, named_requests_max) {}

  // The answer for the gateway. If it is a `resume`, the caller carries that out: a client repeats
  // a named request, and the gateway takes over the same ticket from its first token.
  using answer = std::variant<granted, rejected, resume>;
  answer reserve(const baton::reserve& m, epoch_id epoch, schedule::time_point now);
  // A resumed ticket's request, so that its gateway can use another head.
  std::optional<schedule::scheduler::recovered> recover(const resume& m, schedule::time_point now);
  // A ticket was refused: its name may be used again.
  void forget(ticket_id ticket) { named_.forget(ticket); }
  void tick(schedule::time_point now);

private:
  answer repeat(const baton::reserve& m, const named_request& known, epoch_id epoch);

  schedule::scheduler& core_;
  std::string model_;
  request_log named_;
};

} // namespace baton::actors
