// Inspection of the scheduler: its load, and the consistency of its parts.
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::schedule {

load_report scheduler::load() const {
  load_report report = context_.totals;
  const sequence_lists& lists = sequences_.lists();
  const block_manager& blocks = sequences_.blocks();
  report.running = sequences_.running_count();
  report.waiting = static_cast<std::uint32_t>(lists.waiting().size());
  report.swapped = static_cast<std::uint32_t>(blocks.swapped_count());
  for (const auto& [who, s] : lists.running())
    report.running_tokens += s->computed;
  report.running_max_tokens = lists.running_potential();
  for (const auto& [id, t] : tickets_.all()) {
    report.waiting += t.is_admitted ? 0 : t.choices;
    report.orphaned += t.is_orphaned ? t.choices_open : 0;
  }
  report.blocks_used = static_cast<std::uint32_t>(blocks.used());
  report.blocks_total = static_cast<std::uint32_t>(blocks.total());
  report.swap_blocks_used = static_cast<std::uint32_t>(blocks.swap_used());
  report.swap_blocks_total = static_cast<std::uint32_t>(blocks.swap_total());
  report.state_slots_used = static_cast<std::uint32_t>(sequences_.states().used());
  report.state_slots_total = static_cast<std::uint32_t>(sequences_.states().total());
  report.max_batch_total_tokens =
      std::uint64_t{report.blocks_total} * context_.pipeline.shape.block_positions;
  if (config_.max_batch_total_tokens != 0)
    report.max_batch_total_tokens =
        std::min(report.max_batch_total_tokens, config_.max_batch_total_tokens);
  report.in_flight = static_cast<std::uint32_t>(flights_.size());
  return report;
}

void scheduler::check_integrity() const {
  ENSURE(flights_.size() <= batches_.flights_max(), "{} micro-batches in flight", flights_.size());
  std::map<sequence_id, std::uint32_t> carried, drawing;
  std::map<service_order, std::uint32_t> copying;
  for (const auto& [batch, f] : flights_.all()) {
    for (const service_order& who : f.copied)
      ++copying[who];
    for (const part& p : f.parts) {
      ++carried[p.of->id];
      drawing[p.of->id] += p.samples ? 1 : 0;
    }
  }
  sequences_.check_integrity(std::move(copying));
  std::map<ticket_id, std::uint32_t> open;
  for (const auto& [who, s] : sequences_.all()) {
    const sequence_id id = who.id;
    ENSURE(s.in_flight == (carried.contains(id) ? carried.at(id) : 0), "ticket {}: in flight {}",
           id.ticket.value, s.in_flight);
    ENSURE(s.drawing == (drawing.contains(id) ? drawing.at(id) : 0), "ticket {}: draws {}",
           id.ticket.value, s.drawing);
    if (s.state != sequence_state::ended) {
      const bool is_suspended = tickets_.find(id.ticket)->is_suspended;
      ENSURE(s.is_suspended == is_suspended, "ticket {}: a choice is suspended alone",
             id.ticket.value);
      ENSURE(s.state != sequence_state::running || !is_suspended, "ticket {}: parked and running",
             id.ticket.value);
    }
    open[id.ticket] += s.state == sequence_state::ended ? 0 : 1;
  }
  tickets_.check_integrity(open);
}

} // namespace baton::schedule
