// The part of scheduler for tickets without a reader: orphaned by their gateway, suspended to free
// memory, resumed by a gateway that asks for them.
#include "runtime/schedule/scheduler.hpp"
#include "schema/result.hpp"

#include <set>

namespace baton::schedule {

void scheduler::tick_orphaned(ticket_id id, time_point now) {
  ticket& t = tickets_.at(id);
  if (!t.orphaned_at)
    t.orphaned_at = now;
  const auto left_for = now - *t.orphaned_at;
  if (left_for >= (t.is_resumable ? config_.resume_window : config_.detach_grace))
    output_.fail_ticket(id, finish::cancelled,
                        fail(errc::cancelled, "the stream was not resumed in time"));
  else if (left_for >= config_.detach_grace && !t.is_suspended)
    suspend(id);
}

void scheduler::suspend(ticket_id id) {
  ticket& t = tickets_.at(id);
  t.is_suspended = true;
  sequences_.for_choices(t.priority, id, [this](sequence& s) {
    s.is_suspended = true;
    if (s.state == sequence_state::running)
      sequences_.put_back(s);
    sequences_.update(s);
  });
  tickets_.recount(id);
}

// Drops the tickets that were orphaned first.
void scheduler::limit_suspended() {
  if (tickets_.suspended() <= config_.max_num_parked_reqs)
    return;
  std::set<std::pair<time_point, ticket_id>> suspended;
  for (const auto& [id, t] : tickets_.all())
    if (t.is_suspended)
      suspended.emplace(*t.orphaned_at, id);
  for (; suspended.size() > config_.max_num_parked_reqs; suspended.erase(suspended.begin()))
    output_.fail_ticket(suspended.begin()->second, finish::cancelled,
                        fail(errc::cancelled, "{} streams wait to be resumed, which is the limit",
                             config_.max_num_parked_reqs));
}

bool scheduler::resume(const baton::resume& request) {
  ticket* const found = tickets_.find(request.ticket);
  if (!found || found->resume_key != request.resume_key || found->choices != request.from.size())
    return false;
  ticket& t = *found;
  const bool is_the_same = t.gateway == request.gateway && t.request == request.request;
  if (!t.is_orphaned && !is_the_same)
    output_.send({t.gateway,
                  {.request = t.request,
                   .ticket = request.ticket,
                   .reason = fail(errc::cancelled, "the stream was resumed elsewhere"),
                   .retry_after = std::chrono::milliseconds{0},
                   .queue_position = 0}});
  t.gateway = request.gateway;
  t.request = request.request;
  t.is_orphaned = t.is_suspended = false;
  t.orphaned_at.reset();
  sequences_.for_choices(t.priority, request.ticket, [this](sequence& s) {
    s.is_suspended = false;
    sequences_.update(s);
  });
  tickets_.recount(request.ticket);
  return true;
}

} // namespace baton::schedule
