#include "runtime/schedule/tickets/ticket_queue.hpp"

namespace baton::schedule {

void ticket_queue::put(ticket_id id, const queued_ticket& now) {
  const auto it = all_.find(id);
  if (it != all_.end() && it->second == now)
    return;
  remove(id);
  all_.emplace(id, now);
  auto& of = sums_[now.priority];
  if (now.has_started) {
    of.taken += now.choices_open;
    return;
  }
  ++of.tickets;
  of.choices += now.choices_open;
  of.tokens += now.tokens_estimate;
  waiting_.emplace(service_order{now.priority, {id, 0}}, now);
}

void ticket_queue::remove(ticket_id id) {
  const auto it = all_.find(id);
  if (it == all_.end())
    return;
  const queued_ticket was = it->second;
  all_.erase(it);
  const auto of = sums_.find(was.priority);
  auto& [taken, tickets, choices, tokens] = of->second;
  if (was.has_started) {
    taken -= was.choices_open;
  } else {
    --tickets;
    choices -= was.choices_open;
    tokens -= was.tokens_estimate;
    waiting_.erase({was.priority, {id, 0}});
  }
  if (taken == 0 && tickets == 0)
    sums_.erase(of);
}

queue_figures ticket_queue::look(std::int32_t priority, std::uint32_t slots) const {
  sums before;
  for (auto it = sums_.begin(); it != sums_.end() && it->first <= priority; ++it) {
    before.taken += it->second.taken;
    before.tickets += it->second.tickets;
    before.choices += it->second.choices;
    before.tokens += it->second.tokens;
  }
  queue_figures queue{before.tickets, before.tokens,
                      before.taken < slots ? slots - before.taken : 0};
  if (before.choices <= queue.slots_left)
    return {0, 0, queue.slots_left - before.choices};
  // The first ones take the free slots; a ticket that does not fit is never overtaken.
  for (const auto& [who, t] : waiting_) {
    if (t.choices_open > queue.slots_left)
      break;
    queue.slots_left -= t.choices_open;
    --queue.tickets;
    queue.tokens -= t.tokens_estimate;
  }
  queue.slots_left = 0;
  return queue;
}

const queued_ticket* ticket_queue::find(ticket_id id) const {
  const auto it = all_.find(id);
  return it == all_.end() ? nullptr : &it->second;
}

} // namespace baton::schedule
