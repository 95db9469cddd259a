// Inspection of the scheduler: its load, and the consistency of its data.
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::schedule {

load_report scheduler::load() const {
  load_report report = totals_;
  report.running = running_count();
  report.waiting = static_cast<std::uint32_t>(lists_.waiting().size());
  report.swapped = static_cast<std::uint32_t>(blocks_.swapped_count());
  for (const auto& [who, s] : lists_.running())
    report.running_tokens += s->computed;
  report.running_max_tokens = lists_.running_potential();
  for (const auto& [id, t] : tickets_) {
    report.waiting += t.is_admitted ? 0 : t.choices;
    report.orphaned += t.is_orphaned ? t.choices_open : 0;
  }
  report.blocks_used = static_cast<std::uint32_t>(blocks_.used());
  report.blocks_total = static_cast<std::uint32_t>(blocks_.total());
  report.swap_blocks_used = static_cast<std::uint32_t>(blocks_.swap_used());
  report.swap_blocks_total = static_cast<std::uint32_t>(blocks_.swap_total());
  report.max_batch_total_tokens = std::uint64_t{report.blocks_total} * shape_.block_positions;
  if (config_.max_batch_total_tokens != 0)
    report.max_batch_total_tokens =
        std::min(report.max_batch_total_tokens, config_.max_batch_total_tokens);
  report.in_flight = static_cast<std::uint32_t>(flights_.size());
  return report;
}

void scheduler::check_integrity() const {
  blocks_.check_integrity();
  lists_.check_integrity(sequences_, [this](const sequence& s) { return is_suspended(s); });
  ENSURE(running_count() <= config_.max_num_seqs, "{} sequences run", running_count());
  ENSURE(config_.max_batch_total_tokens == 0 ||
             lists_.running_potential() <= config_.max_batch_total_tokens,
         "{} sequences may come to {} tokens", running_count(), lists_.running_potential());
  ENSURE(flights_.size() <= flights_max(), "{} micro-batches in flight", flights_.size());
  std::map<sequence_id, std::uint32_t> carried, drawing;
  std::map<service_order, std::uint32_t> copying;
  for (const service_order& who : copied_)
    ++copying[who];
  for (const auto& [batch, f] : flights_) {
    for (const service_order& who : f.copied)
      ++copying[who];
    for (const part& p : f.parts) {
      ++carried[p.of->id];
      drawing[p.of->id] += p.samples ? 1 : 0;
    }
  }
  std::map<ticket_id, std::uint32_t> open;
  for (const auto& [who, s] : sequences_) {
    const sequence_id id = who.id;
    ENSURE(s.in_flight == (carried.contains(id) ? carried.at(id) : 0), "ticket {}: in flight {}",
           id.ticket.value, s.in_flight);
    ENSURE(s.drawing == (drawing.contains(id) ? drawing.at(id) : 0), "ticket {}: draws {}",
           id.ticket.value, s.drawing);
    ENSURE(s.computed <= s.issued && s.issued <= s.ids_expected(), "ticket {}: {} of {} of {}",
           id.ticket.value, s.computed, s.issued, s.ids_expected());
    ENSURE(!s.wants_scores() || s.scores.size() == s.computed, "ticket {}: {} scores of {} rows",
           id.ticket.value, s.scores.size(), s.computed);
    ENSURE(s.in_flight > 0 || s.issued == s.computed, "ticket {}: issued, not in flight",
           id.ticket.value);
    ENSURE(s.in_flight > 0 || s.drafts.empty(), "ticket {}: guesses, not in flight",
           id.ticket.value);
    ENSURE(s.in_flight > 0 || s.state != sequence_state::ended, "ticket {} lingers",
           id.ticket.value);
    ENSURE(s.copying == (copying.contains(who) ? copying.at(who) : 0), "ticket {}: {} copies",
           id.ticket.value, s.copying);
    ENSURE(s.swapped == 0 || s.state == sequence_state::waiting, "ticket {}: swapped, not waiting",
           id.ticket.value);
    ENSURE(s.state != sequence_state::running || !tickets_.at(id.ticket).is_suspended,
           "ticket {}: parked and running", id.ticket.value);
    ENSURE(blocks_.swapped(id) == blocks_.needed(s.swapped), "ticket {}: {} positions swapped",
           id.ticket.value, s.swapped);
    const std::size_t blocks = blocks_.of(id).size();
    ENSURE(blocks >= blocks_.needed(s.issued), "ticket {}: blocks missing", id.ticket.value);
    ENSURE(blocks == 0 || s.in_flight > 0 || s.state == sequence_state::running,
           "ticket {} holds blocks for nothing", id.ticket.value);
    open[id.ticket] += s.state == sequence_state::ended ? 0 : 1;
  }
  std::size_t not_suspended = 0;
  for (const auto& [id, t] : tickets_) {
    const std::uint32_t count = t.is_admitted ? (open.contains(id) ? open.at(id) : 0) : t.choices;
    ENSURE(t.choices_open == count && count > 0, "ticket {}: {} choices open", id.value, count);
    const queued_ticket now{t.priority, t.choices_open, t.tokens_estimate, t.choices_started > 0};
    const auto* queued = queue_.find(id);
    ENSURE(t.is_suspended ? !queued : queued && *queued == now, "ticket {} is queued as it was",
           id.value);
    not_suspended += t.is_suspended ? 0 : 1;
  }
  ENSURE(queue_.size() == not_suspended, "{} tickets are queued of {}", queue_.size(),
         not_suspended);
  for (const auto& [id, count] : open)
    ENSURE(count == 0 || tickets_.contains(id), "ticket {} has ended without its choices",
           id.value);
}

} // namespace baton::schedule
