// The part of scheduler for the life of a ticket: reserved, admitted, cancelled, timed out.
#include "runtime/schedule/scheduler.hpp"
#include "schema/ensure.hpp"
#include "schema/result.hpp"

#include <algorithm>

namespace baton::schedule {

scheduler::scheduler(scheduler_config config)
    : context_{std::move(config), {}}, tickets_(context_), sequences_(context_),
      output_(context_, tickets_, sequences_), batches_(context_, tickets_, sequences_, flights_),
      results_(context_, sequences_, flights_, suspects_, output_) {
  ENSURE(config_.max_num_seqs > 0 && config_.max_num_batched_tokens > 1 &&
             config_.prefill_chunk > 0 && config_.max_model_len > 1 && config_.vocabulary_size > 0,
         "a scheduler without slots, rows, positions or vocabulary");
}

std::variant<granted, rejected> scheduler::reserve(const baton::reserve& request, time_point now) {
  if (request.ticket && sequences_.has_choices(request.priority, request.ticket))
    return rejected{.request = request.request,
                    .ticket = {},
                    .reason = fail(errc::conflict, "ticket {} is open, or rows of it are in flight",
                                   request.ticket.value),
                    .retry_after = std::chrono::milliseconds{0},
                    .queue_position = tickets_.look_at_queue(request.priority).tickets};
  return tickets_.reserve(request, now);
}

bool scheduler::is_reserved(ticket_id id) const {
  const ticket* t = tickets_.find(id);
  return t && !t->is_admitted;
}

void scheduler::admit(const baton::admit& request, time_point now) {
  ticket* const found = tickets_.find(request.ticket);
  if (!found) {
    if (!tickets_.was_granted(request.ticket))
      output_.send({request.gateway,
                    {.request = request.request,
                     .ticket = request.ticket,
                     .reason = fail(errc::ticket_not_found, "ticket {} was not granted here",
                                    request.ticket.value),
                     .retry_after = std::chrono::milliseconds{0},
                     .queue_position = 0}});
    return;
  }
  ticket& t = *found;
  if (t.is_admitted)
    return; // a duplicate
  if (auto why = refuse_admit(request, t))
    return output_.refuse(request.ticket, std::move(*why));
  t.is_admitted = true;
  t.admitted_at = now;
  t.continues_prompt = request.continues_prompt;
  t.reasoning = request.reasoning;
  t.begins_in_reasoning = request.begins_in_reasoning;
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
    s.is_suspended = t.is_suspended;
    sequences_.update(s);
  }
  tickets_.recount(request.ticket);
  if (terms.stop.max_tokens > 0 || t.prompt_tokens > 1)
    return;
  // A single-token prompt has no log probabilities to compute.
  sequences_.for_choices(t.priority, request.ticket, [this](sequence& s) {
    if (s.state != sequence_state::ended)
      output_.end_choice(s, output_.message_of(s), finish::length, std::nullopt, 0);
  });
  sequences_.sweep();
}

error scheduler::no_embeddings() {
  return fail_param(
      errc::unsupported_parameter, "model",
      "this model cannot produce embeddings: the engine of a stage does not support it");
}

std::optional<error> scheduler::refuse_admit(const baton::admit& request, const ticket& t) const {
  const auto& pipeline = context_.pipeline;
  const auto& blocks = sequences_.blocks();
  const std::size_t prompt = request.prompt_ids.size();
  const auto is_known = [this](token_id id) {
    return id >= 0 && static_cast<std::uint32_t>(id) < config_.vocabulary_size;
  };
  if (request.terms.choices != t.choices)
    return fail_param(errc::invalid_value, "n", "n was {} and is now {}", t.choices,
                      request.terms.choices);
  if (request.terms.wants_embedding && t.choices != 1)
    return fail_param(errc::invalid_value, "n", "a prompt has one embedding, not {}", t.choices);
  if (request.terms.wants_embedding && pipeline.epoch && !pipeline.shape.pools)
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
  if (pipeline.epoch && blocks.needed(prompt) > blocks.total())
    return fail_param(errc::context_length_exceeded, "prompt",
                      "the prompt of {} tokens needs {} KV blocks, the pipeline has {}", prompt,
                      blocks.needed(prompt), blocks.total());
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
        (pipeline.epoch && !sequences_.fits(prompt + ids.size())))
      return fail_param(errc::invalid_value, "delivered",
                        "{} tokens were delivered, which leaves room for none", ids.size());
  }
  return std::nullopt;
}

void scheduler::cancel(const baton::cancel& request) {
  ticket* const t = tickets_.find(request.ticket);
  if (!t)
    return;
  if (request.why == cancel_reason::stop_text) {
    sequence* s = sequences_.find({t->priority, {request.ticket, request.choice.value_or(0)}});
    if (s && s->state != sequence_state::ended)
      output_.end_choice(*s, output_.message_of(*s), finish::stop, std::nullopt,
                         std::min(request.tokens_kept, s->output_count()));
    return sequences_.sweep();
  }
  if (request.why == cancel_reason::client_lost && t->is_resumable) {
    t->is_orphaned = true;
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
  if (!request.choice || t->choices == 1) {
    output_.fail_ticket(request.ticket, how, why);
  } else if (sequence* s = sequences_.find({t->priority, {request.ticket, *request.choice}});
             s && s->state != sequence_state::ended) {
    output_.end_choice(*s, output_.message_of(*s), how, why, s->output_count());
  }
  sequences_.sweep();
}

// Whether requests wait for a model that is not loaded.
bool scheduler::note_loading(time_point now) {
  const auto& all = tickets_.all();
  const bool is_loading =
      config_.load_timeout && is_unloaded() &&
      std::any_of(all.begin(), all.end(), [](const auto& t) { return !t.second.is_suspended; });
  loading_since_ = is_loading ? std::optional(loading_since_.value_or(now)) : std::nullopt;
  return is_loading;
}

void scheduler::tick(time_point now) {
  const bool gave_up = context_.pipeline.has_given_up(now, config_.recovery_timeout);
  const bool is_loading = note_loading(now);
  for (auto it = tickets_.all().begin(); it != tickets_.all().end();) {
    const ticket_id id = it->first;
    const ticket& t = (it++)->second; // the ticket may end below
    const auto waited = now - t.reserved_at;
    if (gave_up)
      output_.fail_ticket(id, finish::failed,
                          fail(errc::pipeline_lost, "{}",
                               context_.pipeline.with_cause(
                                   fmt::format("the pipeline did not come back within {} ms",
                                               config_.recovery_timeout.count()))));
    else if (is_loading && !t.is_suspended &&
             now - std::max(t.reserved_at, *loading_since_) >= *config_.load_timeout)
      output_.fail_ticket(id, finish::failed,
                          fail(errc::not_ready, "the model was not loaded within {} ms",
                               config_.load_timeout->count()));
    else if (!t.is_admitted && waited >= config_.submit_timeout)
      output_.fail_ticket(id, finish::failed,
                          fail(errc::queue_timeout,
                               "nothing was submitted within {} ms of the ticket",
                               config_.submit_timeout.count()));
    else if (t.choices_started == 0 && ((t.deadline && now >= *t.deadline) ||
                                        (!is_loading && config_.queue_deadline.count() > 0 &&
                                         waited >= config_.queue_deadline)))
      output_.fail_ticket(id, finish::failed,
                          fail(errc::queue_timeout, "no slot became free in time"));
    else if (t.deadline && now >= *t.deadline)
      output_.fail_ticket(id, finish::failed,
                          fail(errc::deadline_exceeded, "the request ran past its deadline"));
    else if (t.is_orphaned)
      tick_orphaned(id, now);
  }
  limit_suspended();
  sequences_.sweep();
  tickets_.observe_pace(now);
}

} // namespace baton::schedule
