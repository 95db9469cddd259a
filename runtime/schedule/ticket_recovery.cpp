// The part of scheduler for tickets without a reader: orphaned by their gateway, suspended to free
// memory, resumed by a gateway that asks for them.
#include "runtime/schedule/scheduler.hpp"
#include "schema/result.hpp"

#include <set>

namespace baton::schedule {

// Messages already on their way still arrive; missing ones are handled by submit_timeout.
void scheduler::orphan_all_of(process_id gateway) {
  for (auto& [id, t] : tickets_)
    if (t.gateway == gateway)
      t.is_orphaned = true;
}

void scheduler::tick_orphaned(ticket_id id, time_point now) {
  ticket& t = tickets_.at(id);
  if (!t.orphaned_at)
    t.orphaned_at = now;
  const auto left_for = now - *t.orphaned_at;
  if (left_for >= (t.is_resumable ? config_.resume_window : config_.detach_grace))
    fail_ticket(id, finish::cancelled, fail(errc::cancelled, "the stream was not resumed in time"));
  else if (left_for >= config_.detach_grace && !t.is_suspended)
    suspend(id);
}

void scheduler::suspend(ticket_id id) {
  tickets_.at(id).is_suspended = true;
  for_choices(id, [this](sequence& s) {
    if (s.state == sequence_state::running)
      put_back(s);
    update_lists(s);
  });
  recount(id);
}

// It waits for a client to resume it, not for a slot.
bool scheduler::is_suspended(const sequence& s) const {
  return s.state == sequence_state::waiting && tickets_.at(s.id.ticket).is_suspended;
}

// Drops the tickets that were orphaned first.
void scheduler::limit_suspended() {
  if (tickets_.size() - queue_.size() <= config_.max_num_parked_reqs)
    return; // tickets outside the queue are suspended
  std::set<std::pair<time_point, ticket_id>> suspended;
  for (const auto& [id, t] : tickets_)
    if (t.is_suspended)
      suspended.emplace(*t.orphaned_at, id);
  for (; suspended.size() > config_.max_num_parked_reqs; suspended.erase(suspended.begin()))
    fail_ticket(suspended.begin()->second, finish::cancelled,
                fail(errc::cancelled, "{} streams wait to be resumed, which is the limit",
                     config_.max_num_parked_reqs));
}

bool scheduler::resume(const baton::resume& request) {
  const auto it = tickets_.find(request.ticket);
  if (it == tickets_.end() || it->second.resume_key != request.resume_key ||
      it->second.choices != request.from.size())
    return false;
  ticket& t = it->second;
  const bool is_the_same = t.gateway == request.gateway && t.request == request.request;
  if (!t.is_orphaned && !is_the_same)
    output_.refusals.push_back(
        {t.gateway,
         {t.request, it->first, fail(errc::cancelled, "the stream was resumed elsewhere"),
          std::chrono::milliseconds{0}, 0}});
  t.gateway = request.gateway;
  t.request = request.request;
  t.is_orphaned = t.is_suspended = false;
  t.orphaned_at.reset();
  for_choices(request.ticket, [this](sequence& s) { update_lists(s); });
  recount(request.ticket);
  return true;
}

} // namespace baton::schedule
