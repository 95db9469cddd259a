#include "gateway/tracing/request_trace.hpp"

#include "gateway/request/model_defaults.hpp"
#include "gateway/request/response_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace baton::gateway {
namespace {

std::string_view operation_name(request_trace::operation asks) noexcept {
  switch (asks) {
  case request_trace::operation::chat:
    return "chat";
  case request_trace::operation::text_completion:
    return "text_completion";
  case request_trace::operation::resume: // not in the conventions: the rest of an answer
    return "resume";
  case request_trace::operation::tokenize:
    return "tokenize";
  case request_trace::operation::detokenize:
    return "detokenize";
  case request_trace::operation::infer: // of a worker model: any computation
    return "infer";
  case request_trace::operation::embeddings:
    return "embeddings";
  case request_trace::operation::unread:
    break;
  }
  return {};
}

std::string_view text_of(cancel_reason why) noexcept {
  switch (why) {
  case cancel_reason::client_asked:
    return "the client cancelled";
  case cancel_reason::client_lost:
    return "the connection was lost: the client may resume";
  case cancel_reason::slow_reader:
    return "the client did not read";
  default:
    return "the connection was lost";
  }
}

template <class Answer>
std::optional<errc> failure_in(const Answer& answer) {
  return answer.failure ? std::optional(answer.failure->code) : std::nullopt;
}

// The span ids of a request are consecutive from a random one; none is 0.
span_id span_id_after(span_id id, std::uint8_t number) noexcept {
  const auto last = id.size() - 1;
  id[last] = static_cast<std::uint8_t>(id[last] + number);
  const bool is_zero = std::all_of(id.begin(), id.end(), [](auto byte) { return byte == 0; });
  if (is_zero) {
    id[0] = 1;
  }
  return id;
}

std::int64_t whole(std::uint64_t n) noexcept {
  return static_cast<std::int64_t>(n);
}

} // namespace

void request_trace::asks_for(operation what, std::string_view model_named) {
  asks = what;
  requested_model = model_named.substr(0, trace_text_bytes_max);
}

void request_trace::asks_for(const generate& request) {
  if (request.terms.wants_embedding) {
    return asks_for(operation::embeddings, request.model);
  }
  const bool is_chat = std::holds_alternative<chat_prompt>(request.input);
  asks_for(is_chat ? operation::chat : operation::text_completion, request.model);
  max_tokens.reset();
  if (request.terms.max_tokens_given || has_default_max_tokens(request)) {
    max_tokens = request.terms.stop.max_tokens;
  }
  temperature = request.terms.sampling.temperature;
  top_p = request.terms.sampling.top_p;
  top_k = request.terms.sampling.top_k;
}

void request_trace::opened(std::string model_found, std::uint32_t choices_count) {
  is_open_ = true;
  model = std::move(model_found);
  choices_.resize(choices_count);
}

void request_trace::take(const stream_event& e, instant now) {
  if (const auto* g = std::get_if<granted>(&e)) {
    ticket_ = g->ticket;
    if (!granted_at_) {
      granted_at_ = now;
    }
  } else if (const auto* r = std::get_if<rejected>(&e)) {
    failed_by(r->reason.code, now);
  } else if (const auto* f = std::get_if<failed>(&e)) {
    failed_by(f->reason.code, now);
  } else if (const auto* c = std::get_if<chunk>(&e)) {
    take_chunk(*c, now);
  } else {
    take_answer(e, now);
  }
}

void request_trace::take_answer(const stream_event& e, instant now) {
  const auto* t = std::get_if<tokenized>(&e);
  const auto* p = std::get_if<inferred>(&e);
  const auto code = t ? failure_in(*t) : p ? failure_in(*p) : failure_in(std::get<detokenized>(e));
  if (code) {
    failed_by(*code, now);
  } else if (!ended_at_ && (!p || p->is_last)) {
    ended_at_ = now;
  }
}

void request_trace::begun(instant now) {
  if (granted_at_) {
    note("resumed", "worker", now);
  } else {
    granted_at_ = now;
  }
}

void request_trace::take_chunk(const chunk& c, instant now) {
  if (ended_at_ || c.choice >= choices_.size()) {
    return;
  }
  auto& choice = choices_[c.choice];
  choice.tokens = c.index;
  choice.how = c.finish;
  prompt_tokens_ = std::max(prompt_tokens_, c.prompt_tokens);
  cached_tokens_ = std::max(cached_tokens_, c.cached_tokens);
  if (c.count > 0 && !first_token_at_) {
    first_token_at_ = now;
  }
  if (c.finish == finish::failed || c.finish == finish::cancelled) {
    const auto otherwise = c.finish == finish::failed ? errc::internal : errc::cancelled;
    failed_by(c.failure ? c.failure->code : otherwise, now);
    return;
  }
  const bool is_last = std::all_of(choices_.begin(), choices_.end(),
                                   [](const auto& each) { return each.how != finish::none; });
  if (is_last) {
    ended_at_ = now;
  }
}

void request_trace::note(std::string_view name, std::string_view reason, instant now) {
  if (ended_at_) {
    return;
  }
  if (events_.size() == trace_events_max) {
    ++events_dropped_;
    return;
  }
  events_.push_back({now, name, std::string(reason.substr(0, trace_text_bytes_max))});
}

void request_trace::left(cancel_reason why, instant now) {
  note("client_left", text_of(why), now);
  failed_by(errc::cancelled, now);
}

void request_trace::failed_by(errc code, instant now) {
  if (!ended_at_) {
    ended_at_ = now;
    failure_ = row_of(code).name;
  }
}

void request_trace::cut_off(errc code, instant now) {
  ended_at_.reset();
  failed_by(code, now);
}

void request_trace::refused_with(int http_status, instant now) {
  if (!ended_at_) {
    ended_at_ = now;
    http_status_ = http_status;
    failure_ = fmt::format("{}", http_status);
  }
}

// The steady clock measures, the system clock has the time of day.
std::uint64_t request_trace::unix_nanos_of(instant at) const noexcept {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at - arrived_at).count();
  return arrived_unix_nanos + static_cast<std::uint64_t>(std::max<std::int64_t>(since, 0));
}

std::string request_trace::name() const {
  if (asks == operation::unread) {
    return route.empty() ? protocol : route;
  }
  const auto& of = model.empty() ? requested_model : model;
  return of.empty() ? std::string(operation_name(asks))
                    : fmt::format("{} {}", operation_name(asks), of);
}

void request_trace::add_usage(std::vector<span_attribute>& to) const {
  if (choices_.empty()) {
    return; // nothing is generated for it
  }
  std::uint64_t tokens = 0;
  std::vector<std::string> ends;
  for (const auto& choice : choices_) {
    tokens += choice.tokens;
    if (choice.how != finish::none) {
      ends.emplace_back(finish_name(choice.how));
    }
  }
  if (prompt_tokens_ > 0) { // known from the first chunk
    to.push_back({"gen_ai.usage.input_tokens", whole(prompt_tokens_)});
    to.push_back({"gen_ai.usage.cache_read.input_tokens", whole(cached_tokens_)});
  }
  to.push_back({"gen_ai.usage.output_tokens", whole(tokens)});
  if (!ends.empty()) {
    to.push_back({"gen_ai.response.finish_reasons", std::move(ends)});
  }
}

std::vector<span_attribute> request_trace::attributes() const {
  std::vector<span_attribute> all{{"baton.door", protocol}};
  const auto add = [&all](std::string_view key, auto value) {
    all.push_back({key, std::move(value)});
  };
  if (asks == operation::unread) {
    if (!route.empty()) {
      add("http.route", route.substr(route.find(' ') + 1));
      add("http.request.method", route.substr(0, route.find(' ')));
    }
  } else {
    add("gen_ai.operation.name", std::string(operation_name(asks)));
    add("gen_ai.provider.name", std::string("baton"));
  }
  if (!requested_model.empty()) {
    add("gen_ai.request.model", requested_model);
  } else if (!model.empty()) { // the default model
    add("gen_ai.request.model", model);
  }
  if (!model.empty()) {
    add("gen_ai.response.model", model);
  }
  if (asks == operation::chat || asks == operation::text_completion) {
    add("gen_ai.request.temperature", temperature);
    add("gen_ai.request.top_p", top_p);
    if (top_k > 0) {
      add("gen_ai.request.top_k", static_cast<double>(top_k));
    }
    if (max_tokens) {
      add("gen_ai.request.max_tokens", whole(*max_tokens));
    }
    if (choices_.size() > 1) {
      add("gen_ai.request.choice.count", whole(choices_.size()));
    }
  }
  add_usage(all);
  if (ticket_) {
    add("baton.ticket", whole(ticket_.value));
    add("baton.pipeline", whole(pipeline_of(ticket_)));
  }
  if (http_status_ != 0) {
    add("http.response.status_code", std::int64_t{http_status_});
  }
  if (!failure_.empty()) {
    add("error.type", failure_);
  }
  return all;
}

span request_trace::child(std::uint8_t number, std::string_view name, instant begin,
                          instant end) const {
  span s;
  s.trace = self.trace;
  s.id = span_id_after(self.span, number);
  s.parent = self.span;
  s.flags = self.flags;
  s.state = self.state;
  s.name = name;
  s.begin_unix_nanos = unix_nanos_of(begin);
  s.end_unix_nanos = std::max(s.begin_unix_nanos, unix_nanos_of(end));
  return s;
}

bool request_trace::has_child_spans() const noexcept {
  return is_open_ && (!choices_.empty() || asks == operation::infer);
}

std::size_t request_trace::span_count() const noexcept {
  if (!has_child_spans()) {
    return 1;
  }
  const bool has_prefill = granted_at_ && asks != operation::resume;
  return 2u + (has_prefill ? 1u : 0u) + (first_token_at_ ? 1u : 0u);
}

std::vector<span> request_trace::spans() const {
  const auto end = ended_at_.value_or(arrived_at);
  auto first = child(0, name(), arrived_at, end);
  first.parent = parent;
  first.is_parent_remote = parent.has_value();
  first.kind = span_kind::server;
  first.attributes = attributes();
  first.failure = failure_;
  first.events_dropped = events_dropped_;
  for (const auto& e : events_) {
    first.events.push_back({unix_nanos_of(e.at), e.name, {}});
    if (!e.reason.empty()) {
      first.events.back().attributes.push_back({"baton.reason", e.reason});
    }
  }
  std::vector<span> all{std::move(first)};
  if (!has_child_spans()) {
    return all;
  }
  all.push_back(child(1, "queue", arrived_at, granted_at_.value_or(end)));
  if (granted_at_ && asks != operation::resume) { // a resumed request was begun before
    const auto* what = asks == operation::infer ? "infer" : "prefill";
    all.push_back(child(2, what, *granted_at_, first_token_at_.value_or(end)));
  }
  if (first_token_at_) {
    all.push_back(child(3, "decode", *first_token_at_, end));
  }
  return all;
}

} // namespace baton::gateway
