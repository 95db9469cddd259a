// Tickets: admission, queueing, and the single path by which a ticket ends.
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"
#include "schema/result.hpp"

#include <algorithm>
#include <limits>

namespace baton::schedule {
namespace {

// 0 if a time was not given.
std::uint64_t micros_between(time_point from, time_point to) {
  using std::chrono::microseconds;
  const auto span = std::chrono::duration_cast<microseconds>(to - from).count();
  return static_cast<std::uint64_t>(std::max<microseconds::rep>(span, 0));
}

} // namespace

scheduler::scheduler(scheduler_config config)
    : config_(std::move(config)), next_ticket_(config_.first_ticket),
      returns_(config_.retry_after) {
  ENSURE(config_.max_num_seqs > 0 && config_.max_num_batched_tokens > 1 &&
             config_.prefill_chunk > 0 && config_.max_model_len > 1 &&
             config_.vocabulary_size > 0 && config_.first_ticket && config_.ticket_step > 0,
         "a scheduler without slots, rows, positions, vocabulary or ticket numbers");
}

std::variant<granted, rejected> scheduler::reserve(const baton::reserve& request, time_point now) {
  if (auto why = refuse_reserve(request, now)) {
    const auto retry_after =
        is_for_load(why->code) ? returns_.next(now) : retry_after_of(why->code);
    return rejected{
        request.request, {}, std::move(*why), retry_after, look_at_queue(request.priority).tickets};
  }
  const ticket_id id = request.ticket ? request.ticket : next_ticket_;
  next_ticket_.value += request.ticket ? 0 : config_.ticket_step;
  ++counters_.tickets_granted;
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
  return granted{request.request, id, last_epoch_, request.resume_key, false};
}

bool scheduler::is_known(ticket_id id) const {
  return tickets_.contains(id);
}

bool scheduler::is_reserved(ticket_id id) const {
  const auto it = tickets_.find(id);
  return it != tickets_.end() && !it->second.is_admitted;
}

std::chrono::milliseconds scheduler::retry_after_of(errc code) const {
  return row_of(code).retryable ? config_.retry_after : std::chrono::milliseconds{0};
}

std::optional<error> scheduler::refuse_reserve(const baton::reserve& request,
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
  if (!epoch_ && (!closed_at_ || has_given_up(now)))
    return fail(errc::not_ready, "{}", with_cause("the pipeline is not up"));
  return request.was_admitted ? std::nullopt : refuse_to_queue(request);
}

std::optional<error> scheduler::refuse_to_queue(const baton::reserve& request) const {
  const bool has_slots = request.choices <= look_at_queue(request.priority).slots_left;
  if (config_.use_job_ticket && request.choices > config_.max_num_seqs)
    return fail_param(errc::invalid_value, "n", "n is {}, there are {} slots", request.choices,
                      config_.max_num_seqs);
  if (has_slots)
    return std::nullopt;
  if (config_.use_job_ticket)
    return fail(errc::no_job_ticket, "all {} slots are taken", config_.max_num_seqs);
  const queue_figures all = look_at_queue(std::numeric_limits<std::int32_t>::max());
  if (all.tickets >= config_.max_num_queued_reqs)
    return fail(errc::overloaded, "{} requests are waiting, which is the limit", all.tickets);
  if (all.tokens + request.tokens_estimate > config_.max_num_queued_tokens)
    return fail(errc::overloaded, "{} tokens are waiting and {} more would pass the limit of {}",
                all.tokens, request.tokens_estimate, config_.max_num_queued_tokens);
  return std::nullopt;
}

void scheduler::recount(ticket_id id) {
  const ticket& t = tickets_.at(id);
  if (t.is_suspended)
    queue_.remove(id);
  else
    queue_.put(id, {t.priority, t.choices_open, t.tokens_estimate, t.choices_started > 0});
}

void scheduler::admit(const baton::admit& request, time_point now) {
  const auto it = tickets_.find(request.ticket);
  if (it == tickets_.end()) {
    const bool was_ours =
        request.ticket >= config_.first_ticket && request.ticket < next_ticket_ &&
        (request.ticket.value - config_.first_ticket.value) % config_.ticket_step == 0;
    if (!was_ours)
      output_.refusals.push_back(
          {request.gateway,
           {request.request, request.ticket,
            fail(errc::ticket_not_found, "ticket {} was not granted here", request.ticket.value),
            std::chrono::milliseconds{0}, 0}});
    return;
  }
  ticket& t = it->second;
  if (t.is_admitted)
    return; // a duplicate
  if (auto why = refuse_admit(request, t))
    return refuse(request.ticket, std::move(*why));
  t.is_admitted = true;
  t.admitted_at = now;
  t.continues_prompt = request.continues_prompt;
  t.prompt_tokens = static_cast<std::uint32_t>(request.prompt_ids.size());
  request_terms terms = request.terms;
  if (terms.max_tokens_given)
    t.tokens_estimate = (std::uint64_t{t.prompt_tokens} + terms.stop.max_tokens) * t.choices;
  else
    terms.stop.max_tokens = config_.max_model_len - t.prompt_tokens;
  terms.max_tokens_given = true; // the resolved value
  if (terms.deadline.count() > 0)
    t.deadline = t.reserved_at + terms.deadline;
  for (std::uint32_t choice = 0; choice < t.choices; ++choice) {
    if (!request.delivered.empty() && request.delivered[choice].is_over) {
      --t.choices_open;
      continue;
    }
    const service_order who{t.priority, {request.ticket, choice}};
    sequence& s = sequences_.try_emplace(who, who, request.prompt_ids, terms).first->second;
    s.terms.sampling.seed += choice;
    if (!request.delivered.empty())
      for (const token_id token : request.delivered[choice].ids)
        s.append(token);
    update_lists(s);
  }
  recount(request.ticket);
  if (terms.stop.max_tokens > 0 || t.prompt_tokens > 1)
    return;
  // A single-token prompt has no log probabilities to compute.
  for_choices(request.ticket, [this](sequence& s) {
    if (s.state != sequence_state::ended)
      end_choice(s, message_of(s), finish::length, std::nullopt, 0);
  });
  sweep();
}

error scheduler::no_embeddings() {
  return fail_param(
      errc::unsupported_parameter, "model",
      "this model cannot produce embeddings: the engine of a stage does not support it");
}

std::optional<error> scheduler::refuse_admit(const baton::admit& request, const ticket& t) const {
  const std::size_t prompt = request.prompt_ids.size();
  const auto is_known = [this](token_id id) {
    return id >= 0 && static_cast<std::uint32_t>(id) < config_.vocabulary_size;
  };
  if (request.terms.choices != t.choices)
    return fail_param(errc::invalid_value, "n", "n was {} and is now {}", t.choices,
                      request.terms.choices);
  if (request.terms.wants_embedding && t.choices != 1)
    return fail_param(errc::invalid_value, "n", "a prompt has one embedding, not {}", t.choices);
  if (request.terms.wants_embedding && epoch_ && !shape_.pools)
    return no_embeddings();
  if (prompt == 0)
    return fail_param(errc::invalid_value, "prompt", "the prompt has no tokens");
  for (const token_id id : request.prompt_ids)
    if (!is_known(id))
      return fail_param(errc::invalid_value, "prompt", "token id {} is outside the vocabulary", id);
  for (const token_id id : request.terms.stop.stop_ids)
    if (!is_known(id))
      return fail_param(errc::invalid_value, "stop_token_ids",
                        "token id {} is outside the vocabulary", id);
  for (const logit_bias& b : request.terms.sampling.biases)
    if (!is_known(b.token))
      return fail_param(errc::invalid_value, "logit_bias", "token id {} is outside the vocabulary",
                        b.token);
  if (request.terms.max_tokens_given && request.terms.stop.max_tokens == 0 &&
      request.terms.sampling.prompt_logprobs < 0)
    return fail_param(errc::invalid_value, "max_tokens", "'max_tokens' must be at least 1");
  if (prompt + 1 > config_.max_model_len)
    return fail_param(errc::context_length_exceeded, "prompt",
                      "the context holds {} tokens, the prompt has {}", config_.max_model_len,
                      prompt);
  if (request.terms.max_tokens_given &&
      prompt + request.terms.stop.max_tokens > config_.max_model_len)
    return fail_param(errc::context_length_exceeded, "max_tokens",
                      "the context holds {} tokens, but {} in the prompt and {} in the completion "
                      "were asked for",
                      config_.max_model_len, prompt, request.terms.stop.max_tokens);
  if (epoch_ && blocks_.needed(prompt) > blocks_.total())
    return fail_param(errc::context_length_exceeded, "prompt",
                      "the prompt of {} tokens needs {} KV blocks, the pipeline has {}", prompt,
                      blocks_.needed(prompt), blocks_.total());
  if (!request.delivered.empty() && request.delivered.size() != t.choices)
    return fail_param(errc::invalid_value, "delivered", "tokens of {} choices, there are {}",
                      request.delivered.size(), t.choices);
  const auto is_over = [](const delivered_choice& had) { return had.is_over; };
  if (!request.delivered.empty() &&
      std::all_of(request.delivered.begin(), request.delivered.end(), is_over))
    return fail_param(errc::invalid_value, "delivered", "all of it was delivered");
  for (const auto& [ids, ends] : request.delivered) {
    if (!std::all_of(ids.begin(), ids.end(), is_known))
      return fail_param(errc::invalid_value, "delivered", "a token id outside the vocabulary");
    if (ends)
      continue;
    const bool is_full = request.terms.max_tokens_given && request.terms.stop.max_tokens > 0 &&
                         ids.size() >= request.terms.stop.max_tokens;
    if (is_full || prompt + ids.size() >= config_.max_model_len ||
        (epoch_ && !fits(prompt + ids.size())))
      return fail_param(errc::invalid_value, "delivered",
                        "{} tokens were delivered, which leaves room for none", ids.size());
  }
  return std::nullopt;
}

void scheduler::cancel(const baton::cancel& request) {
  const auto it = tickets_.find(request.ticket);
  if (it == tickets_.end())
    return;
  if (request.why == cancel_reason::stop_text) {
    sequence* s = find({it->second.priority, {request.ticket, request.choice.value_or(0)}});
    if (s && s->state != sequence_state::ended)
      end_choice(*s, message_of(*s), finish::stop, std::nullopt,
                 std::min(request.tokens_kept, s->output_count()));
    return sweep();
  }
  if (request.why == cancel_reason::client_lost && it->second.is_resumable) {
    it->second.is_orphaned = true;
    return;
  }
  const auto [code, how, text] = [&]() -> std::tuple<errc, finish, const char*> {
    switch (request.why) {
    case cancel_reason::slow_reader:
      return {errc::slow_reader, finish::cancelled, "the client did not read fast enough"};
    case cancel_reason::deadline:
      return {errc::deadline_exceeded, finish::failed, "the deadline has passed"};
    case cancel_reason::draining:
      return {errc::draining, finish::failed, "the server is shutting down"};
    case cancel_reason::refused:
      return {errc::internal, finish::failed, "refused without a reason"};
    case cancel_reason::client_gone:
    case cancel_reason::client_lost:
    case cancel_reason::client_asked:
    case cancel_reason::stop_text:
      break;
    }
    return {errc::cancelled, finish::cancelled, "cancelled by the client"};
  }();
  const error why = request.reason.value_or(error{code, text, {}});
  if (!request.choice || it->second.choices == 1) {
    fail_ticket(request.ticket, how, why);
  } else if (sequence* s = find({it->second.priority, {request.ticket, *request.choice}});
             s && s->state != sequence_state::ended) {
    end_choice(*s, message_of(*s), how, why, s->output_count());
  }
  sweep();
}

bool scheduler::has_given_up(time_point now) const {
  return !epoch_ && closed_at_ && config_.recovery_timeout.count() > 0 &&
         now - *closed_at_ >= config_.recovery_timeout;
}

void scheduler::tick(time_point now) {
  const bool gave_up = has_given_up(now);
  for (auto it = tickets_.begin(); it != tickets_.end();) {
    const ticket_id id = it->first;
    const ticket& t = (it++)->second; // the ticket may end below
    const auto waited = now - t.reserved_at;
    if (gave_up)
      fail_ticket(id, finish::failed,
                  fail(errc::pipeline_lost, "{}",
                       with_cause(fmt::format("the pipeline did not come back within {} ms",
                                              config_.recovery_timeout.count()))));
    else if (!t.is_admitted && waited >= config_.submit_timeout)
      fail_ticket(id, finish::failed,
                  fail(errc::queue_timeout, "nothing was submitted within {} ms of the ticket",
                       config_.submit_timeout.count()));
    else if (t.choices_started == 0 &&
             ((t.deadline && now >= *t.deadline) ||
              (config_.queue_deadline.count() > 0 && waited >= config_.queue_deadline)))
      fail_ticket(id, finish::failed, fail(errc::queue_timeout, "no slot became free in time"));
    else if (t.deadline && now >= *t.deadline)
      fail_ticket(id, finish::failed,
                  fail(errc::deadline_exceeded, "the request ran past its deadline"));
    else if (t.is_orphaned)
      tick_orphaned(id, now);
  }
  limit_suspended();
  sweep();
  const auto all = look_at_queue(std::numeric_limits<std::int32_t>::max());
  returns_.observe(counters_.tickets_ended, all.slots_left == 0, now);
}

// Ends a ticket that has no output yet.
void scheduler::refuse(ticket_id id, error why) {
  ticket& t = tickets_.at(id);
  ENSURE(!t.has_begun, "ticket {} is refused after its first tokens", id.value);
  for_choices(id, [this](sequence& s) {
    s.state = sequence_state::ended;
    settle(s);
    update_lists(s);
  });
  const auto gateway = t.gateway;
  const auto request = t.request;
  const auto priority = t.priority;
  t.choices_open = 0;
  end_ticket(id);
  const auto retry_after = retry_after_of(why.code);
  output_.refusals.push_back(
      {gateway, {request, id, std::move(why), retry_after, look_at_queue(priority).tickets}});
}

void scheduler::fail_ticket(ticket_id id, finish how, const error& why) {
  if (!tickets_.at(id).has_begun)
    return refuse(id, why);
  for_choices(id, [&](sequence& s) {
    if (s.state != sequence_state::ended)
      end_choice(s, message_of(s), how, why, s.output_count());
  });
}

// Fails one choice; if it is the last open one, fails the ticket.
void scheduler::fail_choice(sequence& s, const error& why) {
  if (tickets_.at(s.id.ticket).choices_open == 1)
    fail_ticket(s.id.ticket, finish::failed, why);
  else
    end_choice(s, message_of(s), finish::failed, why, s.output_count());
}

// The next message of a choice, without samples; the first one carries the request's data.
tokens scheduler::message_of(sequence& s) {
  tokens m;
  m.ticket = s.id.ticket;
  m.choice = s.id.choice;
  m.index = s.output_count();
  if (!s.has_begun) {
    ticket& t = tickets_.at(s.id.ticket);
    m.begins = true;
    m.request = t.request;
    m.gateway = t.gateway;
    m.prompt_tokens = t.prompt_tokens;
    m.cached_tokens = static_cast<std::uint32_t>(s.cached);
    m.stopping = s.terms.stop;
    m.logprobs = s.terms.sampling.logprobs;
    m.resume_key = t.resume_key;
    m.delivered.assign(s.ids.begin() + static_cast<std::ptrdiff_t>(s.prompt_count), s.ids.end());
    m.continues_prompt = t.continues_prompt;
    if (s.terms.sampling.prompt_logprobs >= 0 && !s.wants_scores()) {
      m.prompt_scores = std::exchange(s.scores, {});
      m.prompt_scores.insert(m.prompt_scores.begin(), {s.ids.front(), 0, {}});
    }
    m.prepare_micros = micros_between(t.reserved_at, t.admitted_at);
    m.queue_micros = micros_between(t.admitted_at, t.stepped_at.value_or(t.admitted_at));
    totals_.prompt_tokens += t.has_begun ? 0 : t.prompt_tokens;
    totals_.prefix_cache_queries +=
        config_.enable_prefix_caching && !s.terms.wants_embedding && m.prompt_scores.empty()
            ? t.prompt_tokens
            : 0;
    totals_.prefix_cache_hits += s.cached;
    s.has_begun = t.has_begun = true;
  }
  return m;
}

// The only transition of a choice to its end.
void scheduler::end_choice(sequence& s, tokens last, finish how, std::optional<error> why,
                           std::uint32_t tokens_total) {
  ENSURE(s.state != sequence_state::ended, "choice {} of ticket {} ends twice", s.id.choice,
         s.id.ticket.value);
  s.state = sequence_state::ended;
  last.finish = how;
  last.failure = std::move(why);
  last.tokens_total = tokens_total;
  output_.tokens.push_back(std::move(last));
  settle(s);
  update_lists(s);
  if (--tickets_.at(s.id.ticket).choices_open == 0)
    end_ticket(s.id.ticket);
  else
    recount(s.id.ticket);
}

// The only transition of a ticket to its end.
void scheduler::end_ticket(ticket_id id) {
  const auto it = tickets_.find(id);
  ENSURE(it != tickets_.end() && it->second.choices_open == 0, "ticket {} ends twice or too early",
         id.value);
  tickets_.erase(it);
  queue_.remove(id);
  ++counters_.tickets_ended;
}

sequence* scheduler::find(const service_order& who) {
  const auto it = sequences_.find(who);
  return it == sequences_.end() ? nullptr : &it->second;
}

void scheduler::for_choices(ticket_id id, const std::function<void(sequence&)>& what) {
  auto it = sequences_.lower_bound({tickets_.at(id).priority, {id, 0}});
  for (; it != sequences_.end() && it->second.id.ticket == id; ++it)
    what(it->second);
}

} // namespace baton::schedule
