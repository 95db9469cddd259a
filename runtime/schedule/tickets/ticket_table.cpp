#include "runtime/schedule/tickets/ticket_table.hpp"

#include "schema/ensure.hpp"
#include "schema/result.hpp"

#include <limits>

namespace baton::schedule {

ticket_table::ticket_table(const scheduler_context& context)
    : config_(context.config), pipeline_(context.pipeline), next_ticket_(config_.first_ticket),
      returns_(config_.retry_after) {
  ENSURE(config_.first_ticket && config_.ticket_step > 0, "tickets without numbers");
}

std::variant<granted, rejected> ticket_table::reserve(const baton::reserve& request,
                                                      time_point now) {
  if (auto why = refuse_reserve(request, now)) {
    const auto retry_after =
        is_for_load(why->code) ? returns_.next(now) : retry_after_of(why->code);
    return rejected{.request = request.request,
                    .ticket = {},
                    .reason = std::move(*why),
                    .retry_after = retry_after,
                    .queue_position = look_at_queue(request.priority).tickets};
  }
  const ticket_id id = request.ticket ? request.ticket : next_ticket_;
  next_ticket_.value += request.ticket ? 0 : config_.ticket_step;
  ++granted_;
  ticket t;
  t.request = request.request;
  t.gateway = request.gateway;
  t.priority = request.priority;
  t.choices = t.choices_open = request.choices;
  t.tokens_estimate = request.tokens_estimate;
  t.reserved_at = now;
  t.resume_key = request.resume_key;
  t.is_resumable = request.is_resumable;
  tickets_.emplace(id, t);
  recount(id);
  return granted{.request = request.request,
                 .ticket = id,
                 .epoch = pipeline_.last_epoch,
                 .resume_key = request.resume_key,
                 .is_submitted = false};
}

ticket* ticket_table::find(ticket_id id) {
  const auto it = tickets_.find(id);
  return it == tickets_.end() ? nullptr : &it->second;
}

const ticket* ticket_table::find(ticket_id id) const {
  const auto it = tickets_.find(id);
  return it == tickets_.end() ? nullptr : &it->second;
}

bool ticket_table::was_granted(ticket_id id) const noexcept {
  return id >= config_.first_ticket && id < next_ticket_ &&
         (id.value - config_.first_ticket.value) % config_.ticket_step == 0;
}

std::chrono::milliseconds ticket_table::retry_after_of(errc code) const {
  return row_of(code).retryable ? config_.retry_after : std::chrono::milliseconds{0};
}

std::optional<error> ticket_table::refuse_reserve(const baton::reserve& request,
                                                  time_point now) const {
  if (request.choices == 0 || request.choices > choices_max)
    return fail_param(errc::invalid_value, "n", "n must be between 1 and {}, not {}", choices_max,
                      request.choices);
  if (request.priority != 0 && config_.scheduling_policy != scheduling_policy::priority)
    return fail_param(errc::invalid_value, "priority",
                      "priority is {}, but requests are served as they come: leave it out, or set "
                      "model.scheduling_policy to \"priority\"",
                      request.priority);
  if (request.ticket) { // admitted before: exempt from the queue's bounds and from drain
    if (request.ticket >= next_ticket_ || tickets_.contains(request.ticket))
      return fail(errc::conflict, "ticket {} is open, or was never granted", request.ticket.value);
    return std::nullopt;
  }
  if (is_draining_ && !request.was_admitted)
    return fail(errc::draining, "the server is shutting down");
  if ((pipeline_.is_unloaded() && !config_.load_timeout) ||
      pipeline_.has_given_up(now, config_.recovery_timeout))
    return fail(errc::not_ready, "{}", pipeline_.with_cause("the pipeline is not up"));
  return request.was_admitted ? std::nullopt : refuse_to_queue(request);
}

std::optional<error> ticket_table::refuse_to_queue(const baton::reserve& request) const {
  const bool has_slots = request.choices <= look_at_queue(request.priority).slots_left;
  if (config_.use_job_ticket && request.choices > config_.max_num_seqs)
    return fail_param(errc::invalid_value, "n", "n is {}, there are {} slots", request.choices,
                      config_.max_num_seqs);
  if (has_slots)
    return std::nullopt;
  if (config_.use_job_ticket)
    return fail(errc::no_job_ticket, "all {} slots are taken", config_.max_num_seqs);
  const queue_figures all = look_at_queue();
  if (all.tickets >= config_.max_num_queued_reqs)
    return fail(errc::overloaded, "{} requests are waiting, which is the limit", all.tickets);
  if (all.tokens + request.tokens_estimate > config_.max_num_queued_tokens)
    return fail(errc::overloaded, "{} tokens are waiting and {} more would pass the limit of {}",
                all.tokens, request.tokens_estimate, config_.max_num_queued_tokens);
  return std::nullopt;
}

void ticket_table::recount(ticket_id id) {
  const ticket& t = tickets_.at(id);
  if (t.is_suspended)
    queue_.remove(id);
  else
    queue_.put(id, {t.priority, t.choices_open, t.tokens_estimate, t.choices_started > 0});
}

void ticket_table::count_start(ticket_id id) {
  ++tickets_.at(id).choices_started;
  recount(id);
}

void ticket_table::record_step(ticket_id id, time_point now) {
  auto& since = tickets_.at(id).stepped_at;
  since = since.value_or(now);
}

// Messages already on their way still arrive; missing ones are handled by submit_timeout.
void ticket_table::orphan_all_of(process_id gateway) {
  for (auto& [id, t] : tickets_)
    if (t.gateway == gateway)
      t.is_orphaned = true;
}

queue_figures ticket_table::look_at_queue() const {
  return look_at_queue(std::numeric_limits<std::int32_t>::max());
}

void ticket_table::observe_pace(time_point now) {
  returns_.observe(ended_, look_at_queue().slots_left == 0, now);
}

void ticket_table::end(ticket_id id) {
  const auto it = tickets_.find(id);
  ENSURE(it != tickets_.end() && it->second.choices_open == 0, "ticket {} ends twice or too early",
         id.value);
  tickets_.erase(it);
  queue_.remove(id);
  ++ended_;
}

void ticket_table::check_integrity(const std::map<ticket_id, std::uint32_t>& open) const {
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
