#include "gateway/dispatch/request_tracker.hpp"

#include "gateway/base/outage.hpp"
#include "gateway/request/model_defaults.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/state/refusal.hpp"
#include "schema/digest.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {

std::chrono::milliseconds sooner(std::chrono::milliseconds a,
                                 std::chrono::milliseconds b) noexcept {
  if (a.count() == 0 || b.count() == 0) {
    return std::max(a, b);
  }
  return std::min(a, b);
}

bool may_reroute(const open_entry& entry) noexcept {
  return entry.phase == request_phase::reserving && !entry.ticket() && !entry.has_client_grant &&
         entry.reserve.request_id.empty();
}

bool is_for_head(errc code) noexcept {
  return is_for_load(code) || code == errc::not_ready;
}

open_entry entry_of(open_generate& m, std::uint32_t max_model_len) {
  auto& request = m.request;
  open_entry entry;
  entry.out = m.out;
  entry.lease = std::move(m.lease);
  entry.inflight = std::move(m.inflight);
  entry.trace = std::move(m.trace);
  entry.owes_prompt = true;
  entry.delivered.assign(request.terms.choices, 0);
  entry.delivered_ids.resize(request.terms.choices);
  entry.finished.assign(request.terms.choices, false);
  entry.had_finish.assign(request.terms.choices, false);
  entry.choices_left = request.terms.choices;
  auto& r = entry.reserve;
  r.request = m.out->number();
  r.model = request.model;
  r.choices = request.terms.choices;
  r.tokens_estimate = tokens_estimate(request, max_model_len);
  r.priority = request.priority;
  r.is_resumable = m.is_stream || request.is_resumable || !request.request_id.empty();
  if (!request.request_id.empty()) {
    r.request_id = request.request_id;
    r.request_digest = digest_of(request, m.add_generation_prompt);
  }
  auto& s = entry.submit;
  s.prompt_tokens_max = prompt_tokens_within(request, max_model_len);
  s.request = r.request;
  s.input = std::move(request.input);
  s.add_generation_prompt = m.add_generation_prompt;
  s.max_tokens_default = has_default_max_tokens(request) ? request.terms.stop.max_tokens : 0;
  s.terms = std::move(request.terms);
  s.tools = std::move(request.tools);
  s.template_options = std::move(request.template_options);
  return entry;
}

open_entry entry_of(open_resume& m) {
  open_entry entry;
  entry.out = m.out;
  entry.lease = std::move(m.lease);
  entry.inflight = std::move(m.inflight);
  entry.trace = std::move(m.trace);
  entry.phase = request_phase::resuming;
  entry.has_request = false;
  entry.delivered_ids.resize(m.from.size());
  entry.choices_left = static_cast<std::uint32_t>(m.from.size());
  entry.finished.assign(m.from.size(), false); // its last chunk comes again: with it, the usage
  for (const auto& point : m.from) {
    entry.delivered.push_back(point.index);
    entry.had_finish.push_back(point.has_finish);
  }
  auto& r = entry.reserve;
  r.request = m.out->number();
  r.model = std::move(m.model);
  r.choices = entry.choices_left;
  r.ticket = m.ticket;
  r.resume_key = m.resume_key;
  return entry;
}

chunk_verdict judge(const open_entry& entry, const chunk& c) noexcept {
  if (c.choice >= entry.delivered.size()) {
    return chunk_verdict::gap;
  }
  const auto delivered = entry.delivered[c.choice];
  const bool covers_old = c.index <= delivered && c.count > 0;
  if (entry.finished[c.choice] || covers_old) {
    return chunk_verdict::duplicate;
  }
  return c.count <= c.index && c.index - c.count == delivered ? chunk_verdict::deliver
                                                              : chunk_verdict::gap;
}

bool is_replayable(const open_entry& entry) noexcept {
  if (!entry.has_request) {
    return false;
  }
  for (std::size_t i = 0; i < entry.finished.size(); ++i) {
    const bool knows_ids = entry.delivered_ids[i].size() == entry.delivered[i];
    if (!entry.finished[i] && (!knows_ids || entry.had_finish[i])) {
      return false;
    }
  }
  return true;
}

void restore_request(open_entry& entry, submit recovered) {
  if (recovered.delivered.size() != entry.delivered.size()) {
    return;
  }
  for (std::size_t i = 0; i < recovered.delivered.size(); ++i) {
    auto& [ids, is_over] = recovered.delivered[i];
    if (!is_over && ids.size() == entry.delivered[i]) {
      entry.delivered_ids[i] = std::move(ids);
    }
  }
  recovered.delivered.clear();
  recovered.lease = {}; // what stays here holds no credit of the link
  entry.submit = std::move(recovered);
  entry.has_request = true;
}

submit replay(const open_entry& entry, time_point now) {
  using std::chrono::milliseconds;
  auto s = entry.submit;
  if (s.terms.deadline.count() > 0) { // a head counts from its grant
    const auto gone = std::chrono::duration_cast<milliseconds>(now - entry.opened_at);
    s.terms.deadline = std::max(milliseconds(1), s.terms.deadline - gone);
  }
  for (std::size_t i = 0; i < entry.delivered_ids.size(); ++i) {
    s.delivered.push_back({entry.delivered_ids[i], entry.finished[i]});
  }
  return s;
}

bool may_migrate(const open_entry& entry, time_point now) noexcept {
  return entry.out && entry.ticket() && entry.reserve.request_id.empty() && is_replayable(entry) &&
         now >= entry.migrates_after;
}

void begin_migration(open_entry& entry, const pipeline_set& here) {
  entry.left_ticket = entry.ticket();
  entry.reserve.ticket = entry.submit.ticket = {};
  entry.reserve.was_admitted = true;
  entry.phase = request_phase::reserving;
  entry.gaps = 0;
  entry.tried = here;
}

void abort_migration(open_entry& entry, time_point now) {
  entry.reserve.ticket = entry.submit.ticket = std::exchange(entry.left_ticket, {});
  entry.reserve.was_admitted = false;
  entry.phase = request_phase::resuming;
  entry.migrates_after = now + move_patience;
}

resume resume_of(const open_entry& entry) {
  resume r;
  r.request = entry.reserve.request;
  r.gateway = entry.reserve.gateway;
  r.ticket = entry.ticket();
  r.resume_key = entry.reserve.resume_key;
  for (std::size_t i = 0; i < entry.delivered.size(); ++i) {
    r.from.push_back({entry.delivered[i], entry.finished[i] || entry.had_finish[i]});
  }
  return r;
}

void record_tokens(metrics& counts, std::uint32_t pipeline, open_entry& entry, const chunk& c,
                   time_point now) {
  const auto seconds_since = [now](time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  if (c.count > 0) {
    if (!entry.last_token_at) {
      counts.first_token(pipeline, entry.model(), seconds_since(entry.opened_at));
      counts.next_tokens(pipeline, entry.model(), c.count, -1);
      entry.first_token_at = now;
    } else {
      counts.next_tokens(pipeline, entry.model(), c.count, seconds_since(*entry.last_token_at));
    }
    entry.last_token_at = now;
  }
  if (c.finish != finish::none) {
    counts.choice_ended(pipeline, entry.model(), c.finish, c.output_tokens);
  }
}

void record_usage(open_entry& entry, const chunk& c, time_point now) {
  if (!entry.lease) {
    return;
  }
  const bool has_prompt = std::exchange(entry.owes_prompt, false);
  const std::uint64_t tokens = std::uint64_t{c.count} + (has_prompt ? c.prompt_tokens : 0);
  entry.lease->account().record_usage(tokens, now);
}

ended_request ended_as(const open_entry& entry, finish how, time_point now,
                       std::uint32_t max_model_len) {
  const auto since_opened = [&entry](time_point at) {
    return std::chrono::duration<double>(at - entry.opened_at).count();
  };
  ended_request r;
  r.seconds = since_opened(now);
  r.prompt_tokens = entry.prompt_tokens;
  for (const auto tokens : entry.delivered) {
    r.output_tokens += tokens;
    r.longest_output_tokens = std::max<std::uint64_t>(r.longest_output_tokens, tokens);
  }
  r.is_well = how != finish::failed && how != finish::cancelled;
  r.is_cancelled = how == finish::cancelled;
  if (entry.granted_at) { // else it had waited before its client came here
    constexpr double micros_of_second = 1e6;
    r.prepare_seconds = static_cast<double>(entry.prepare_micros) / micros_of_second;
    r.queue_seconds = since_opened(*entry.granted_at) +
                      static_cast<double>(entry.queue_micros) / micros_of_second;
  }
  if (entry.first_token_at && entry.last_token_at) {
    r.first_token_seconds = since_opened(*entry.first_token_at);
    r.last_token_seconds = since_opened(*entry.last_token_at);
  }
  if (!entry.has_request) { // its client came from another life of a gateway
    return r;
  }
  r.choices = entry.submit.terms.choices;
  const auto& asked = entry.submit;
  if (asked.terms.max_tokens_given) {
    r.max_tokens = asked.terms.stop.max_tokens;
  } else if (max_model_len > entry.prompt_tokens) {
    const auto room = max_model_len - entry.prompt_tokens;
    r.max_tokens = asked.max_tokens_default > 0 ? std::min(asked.max_tokens_default, room) : room;
  }
  if (entry.submit.terms.wants_embedding) {
    r.max_tokens.reset();
  }
  return r;
}

bool take_in(open_entry& entry, const chunk& c) {
  entry.delivered[c.choice] = c.index;
  auto& ids = entry.delivered_ids[c.choice];
  ids.insert(ids.end(), c.ids.begin(), c.ids.end());
  entry.gaps = 0;
  entry.prompt_tokens = std::max(entry.prompt_tokens, c.prompt_tokens);
  entry.prepare_micros = std::max(entry.prepare_micros, c.prepare_micros);
  entry.queue_micros = std::max(entry.queue_micros, c.queue_micros);
  if (c.finish == finish::none) {
    return false;
  }
  entry.finished[c.choice] = true;
  return --entry.choices_left == 0;
}

} // namespace baton::gateway
