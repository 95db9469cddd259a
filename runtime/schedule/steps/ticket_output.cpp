#include "runtime/schedule/steps/ticket_output.hpp"

#include "schema/ensure.hpp"

#include <algorithm>

namespace baton::schedule {

namespace {

// 0 if a time was not given.
std::uint64_t micros_between(time_point from, time_point to) {
  using std::chrono::microseconds;
  const auto span = std::chrono::duration_cast<microseconds>(to - from).count();
  return static_cast<std::uint64_t>(std::max<microseconds::rep>(span, 0));
}

} // namespace

void ticket_output::refuse(ticket_id id, error why) {
  ticket& t = tickets_.at(id);
  ENSURE(!t.has_begun, "ticket {} is refused after its first tokens", id.value);
  sequences_.for_choices(t.priority, id, [this](sequence& s) {
    s.state = sequence_state::ended;
    sequences_.settle(s);
    sequences_.update(s);
  });
  const auto gateway = t.gateway;
  const auto request = t.request;
  const auto priority = t.priority;
  t.choices_open = 0;
  tickets_.end(id);
  const auto retry_after = tickets_.retry_after_of(why.code);
  output_.refusals.push_back({gateway,
                              {.request = request,
                               .ticket = id,
                               .reason = std::move(why),
                               .retry_after = retry_after,
                               .queue_position = tickets_.look_at_queue(priority).tickets}});
}

void ticket_output::fail_ticket(ticket_id id, finish how, const error& why) {
  const ticket& t = tickets_.at(id);
  if (!t.has_begun)
    return refuse(id, why);
  sequences_.for_choices(t.priority, id, [&](sequence& s) {
    if (s.state != sequence_state::ended)
      end_choice(s, message_of(s), how, why, s.output_count());
  });
}

void ticket_output::fail_choice(sequence& s, const error& why) {
  if (tickets_.at(s.id.ticket).choices_open == 1)
    fail_ticket(s.id.ticket, finish::failed, why);
  else
    end_choice(s, message_of(s), finish::failed, why, s.output_count());
}

tokens ticket_output::message_of(sequence& s) {
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
    m.reasoning = t.reasoning;
    m.begins_in_reasoning = t.begins_in_reasoning;
    const bool has_scores = s.terms.sampling.prompt_logprobs >= 0 && !s.wants_scores();
    if (has_scores) {
      m.prompt_scores = std::exchange(s.scores, {});
      m.prompt_scores.insert(m.prompt_scores.begin(), {s.ids.front(), 0, {}});
    } else if (s.terms.wants_prompt_ids) {
      for (std::size_t i = 0; i < s.prompt_count; ++i)
        m.prompt_scores.push_back({s.ids[i], 0, {}});
    }
    m.prepare_micros = micros_between(t.reserved_at, t.admitted_at);
    m.queue_micros = micros_between(t.admitted_at, t.stepped_at.value_or(t.admitted_at));
    totals_.prompt_tokens += t.has_begun ? 0 : t.prompt_tokens;
    totals_.prefix_cache_queries +=
        config_.enable_prefix_caching && !s.terms.wants_embedding && !has_scores ? t.prompt_tokens
                                                                                 : 0;
    totals_.prefix_cache_hits += s.cached;
    s.has_begun = t.has_begun = true;
  }
  return m;
}

void ticket_output::end_choice(sequence& s, tokens last, finish how, std::optional<error> why,
                               std::uint32_t tokens_total) {
  ENSURE(s.state != sequence_state::ended, "choice {} of ticket {} ends twice", s.id.choice,
         s.id.ticket.value);
  s.state = sequence_state::ended;
  last.finish = how;
  last.failure = std::move(why);
  last.tokens_total = tokens_total;
  output_.tokens.push_back(std::move(last));
  sequences_.settle(s);
  sequences_.update(s);
  if (--tickets_.at(s.id.ticket).choices_open == 0)
    tickets_.end(s.id.ticket);
  else
    tickets_.recount(s.id.ticket);
}

} // namespace baton::schedule
