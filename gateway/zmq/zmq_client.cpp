#include "gateway/zmq/zmq_client.hpp"

#include "gateway/admission/open_requests.hpp"
#include "gateway/api/kserve/kserve_model.hpp"
#include "gateway/api/openai/openai_response.hpp"
#include "gateway/dispatch/request_tracker.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/request/response_writer.hpp"
#include "gateway/state/refusal.hpp"
#include "gateway/workers/worker_lookup.hpp"

#include <algorithm>

namespace baton::gateway {

namespace {

// Kinds of message that require an answer.
bool asks(const envelope& head) {
  return head.kind == kind_of(message(generate{})) || head.kind == kind_of(message(resume{})) ||
         head.kind == kind_of(message(infer{}));
}

} // namespace

zmq_client::zmq_client(admission& opener, const hello& who, principal identity, wiring wires,
                       instant now)
    : opener_(opener), who_(who), identity_(std::move(identity)), wires_(std::move(wires)),
      last_seen_(now) {
  who_.api_key.clear();
}

bool zmq_client::is_silent(instant now) const {
  return now - last_seen_ > opener_.facts().config().zmq_bounds.silence_max;
}

void zmq_client::send(const message& m, std::uint64_t correlation) {
  if (is_lost_) {
    return;
  }
  const auto& config = opener_.facts().config();
  envelope e;
  e.source = config.self;
  e.source_incarnation = config.incarnation;
  e.target = who_.process;
  e.target_incarnation = who_.incarnation;
  e.source_actor = actors::well_known::zmq_server;
  e.target_actor = actors::well_known::client;
  e.correlation = correlation;
  e.sequence = ++sequence_;
  const auto f = encode(e, m);
  if (needs_credit(kind_of(m))) {
    data_bytes_ += f.size_bytes();
  }
  is_lost_ = !wires_.send(f);
}

// Credit is checked before a message is built, so one message may exceed the window.
bool zmq_client::has_credit() const noexcept {
  return data_bytes_ - credited_bytes_ < opener_.facts().config().zmq_bounds.window_bytes;
}

void zmq_client::acknowledge() {
  const auto& config = opener_.facts().config();
  hello_ack ack;
  ack.process = config.self;
  ack.incarnation = config.incarnation;
  ack.credit_bytes = config.zmq_bounds.window_bytes;
  send(ack, 0);
}

void zmq_client::beat() {
  heartbeat h;
  h.count = ++beats_;
  send(h, 0);
}

void zmq_client::take(message m, instant now) {
  last_seen_ = now;
  std::visit([this](auto& content) { on(content); }, m);
}

// The client waits for an answer; the envelope has the request's number as well as the body.
void zmq_client::refuse_unreadable(const envelope& head, const error& why, instant now) {
  last_seen_ = now;
  if (asks(head) && head.correlation != 0 && may_open(head.correlation)) {
    refuse(head.correlation,
           fail(errc::invalid_request, "the request cannot be read: {}", why.message));
  }
}

void zmq_client::end_faulty(const envelope& head, const error& why, instant now) {
  last_seen_ = now;
  if (asks(head) && head.correlation != 0) {
    end_faulty(head.correlation, why);
  }
}

void zmq_client::end_faulty(std::uint64_t request, const error& why) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) {
    return refuse(request, why);
  }
  send_failure(request, it->second, why);
  held_.erase(request);
  forget(request); // and cancel its ticket
}

template <class Other>
void zmq_client::on(const Other&) {
  if constexpr (!std::is_same_v<Other, heartbeat>) {
    opener_.counts().dropped("zmq_unexpected"); // a kind that clients do not send
  }
}

bool zmq_client::may_open(std::uint64_t request) {
  if (requests_.contains(request)) {
    opener_.counts().dropped("zmq_duplicate_request");
    return false;
  }
  return true;
}

void zmq_client::on(generate& m) {
  const auto number = m.request;
  if (!may_open(number)) {
    return;
  }
  if (auto ok = has_room(); !ok) {
    return refuse(number, ok.error());
  }
  if (auto ok = check_ranges(m, opener_.facts().config().request); !ok) {
    return refuse(number, ok.error());
  }
  const auto choices = m.terms.choices;
  enter(number,
        opener_.open(identity_, std::move(m), /*add_generation_prompt=*/true, /*is_stream=*/true,
                     wires_.wake_for(number)),
        choices);
}

void zmq_client::on(const resume& m) {
  if (!may_open(m.request)) {
    return;
  }
  if (auto ok = has_room(); !ok) {
    return refuse(m.request, ok.error());
  }
  enter(m.request,
        opener_.resume(identity_, {}, {m.ticket, m.resume_key, m.from}, /*is_resumable=*/true,
                       wires_.wake_for(m.request)),
        m.from.size());
}

result<void> zmq_client::has_room() const {
  const auto most = opener_.facts().config().zmq_bounds.requests_per_client_max;
  if (requests_.size() >= most) {
    return fail(errc::overloaded, "the client has {} open requests, its limit", requests_.size());
  }
  return {};
}

void zmq_client::enter(std::uint64_t request, open_result open, std::size_t choices) {
  if (open) {
    requests_.emplace(request, open_entry{*std::move(open), {}, std::vector<bool>(choices, false)});
    return;
  }
  refuse(request, open.refusal());
}

void zmq_client::refuse(std::uint64_t request, const error& reason) {
  opener_.trace_refusal(identity_, reason.code);
  refuse(request, refuse_here(reason, *opener_.facts().look()));
}

void zmq_client::refuse(std::uint64_t request, rejected no) {
  no.request = request;
  send(no, request);
}

void zmq_client::on(tokenize& m) {
  if (!may_open(m.request)) {
    return;
  }
  const auto number = m.request;
  auto open = opener_.tokenize(identity_, {}, std::move(m), wires_.wake_for(number));
  if (open) {
    requests_.emplace(number, open_entry{*std::move(open), {}, {}});
    return;
  }
  tokenized no;
  no.request = number;
  no.failure = open.refusal().reason;
  send(no, number);
}

void zmq_client::on(detokenize& m) {
  if (!may_open(m.request)) {
    return;
  }
  auto open = opener_.detokenize(identity_, {}, std::move(m.ids), wires_.wake_for(m.request));
  if (open) {
    requests_.emplace(m.request, open_entry{*std::move(open), {}, {}});
    return;
  }
  detokenized no;
  no.request = m.request;
  no.failure = open.refusal().reason;
  send(no, m.request);
}

void zmq_client::on(infer& m) {
  const auto number = m.request;
  if (!may_open(number)) {
    return;
  }
  if (auto ok = has_room(); !ok) {
    return refuse(number, ok.error());
  }
  auto& facts = opener_.facts();
  if (!is_worker_model(facts, m.model)) {
    const auto language =
        kserve_model_named(*facts.look(), facts.config().model_aliases, m.model, m.version);
    if (language) {
      return open_language_infer(m, *language);
    }
  }
  enter(number, opener_.infer(identity_, std::move(m), wires_.wake_for(number)), /*choices=*/0);
}

void zmq_client::open_language_infer(const infer& m, const std::string& model) {
  auto read = read_language_infer(m, model, opener_.facts().config());
  if (!read) {
    return refuse(m.request, read.error());
  }
  read->request.terms.deadline = sooner(read->request.terms.deadline, m.deadline);
  auto open = opener_.open(identity_, std::move(read->request), /*add_generation_prompt=*/true,
                           /*is_stream=*/false, wires_.wake_for(m.request));
  if (!open) {
    return refuse(m.request, in_client_terms(read->client_names, open.refusal()));
  }
  enter(m.request, std::move(open), /*choices=*/0);
  auto& entry = requests_.at(m.request);
  entry.pieces.emplace(std::move(read->shape));
  entry.client_names = std::move(read->client_names);
}

void zmq_client::on(const cancel_infer& m) {
  const auto it = requests_.find(m.request);
  if (it == requests_.end() || !it->second.tickets.empty()) {
    return; // it ended while the message was in transit
  }
  it->second.open.close(cancel_reason::client_asked);
  opener_.counts().client_gone(opener_.protocol());
  held_.erase(m.request);
  forget(m.request);
  refuse(m.request, fail(errc::cancelled, "cancelled by the client"));
}

// Only the client's own tickets: those of other clients are not in the table.
void zmq_client::on(const cancel& m) {
  const auto it = tickets_.find(m.ticket);
  if (it == tickets_.end()) {
    return; // it ended while the cancel was in transit
  }
  const auto number = it->second;
  auto& entry = requests_.at(number);
  entry.open.close(cancel_reason::client_asked);
  opener_.counts().client_gone(opener_.protocol());
  send_failure(number, entry, fail(errc::cancelled, "cancelled by the client"));
  held_.erase(number);
  forget(number);
}

void zmq_client::forget(std::uint64_t request) {
  const auto it = requests_.find(request);
  for (const auto ticket : it->second.tickets) {
    tickets_.erase(ticket);
  }
  requests_.erase(it);
}

void zmq_client::on(const credit& m) {
  if (m.bytes_total < credited_bytes_ || m.bytes_total > data_bytes_) {
    opener_.counts().dropped("zmq_bad_credit");
    return;
  }
  credited_bytes_ = m.bytes_total;
  const auto waiting = std::exchange(held_, {});
  for (const auto number : waiting) {
    pump(number);
  }
}

void zmq_client::on(const list_models& m) {
  models answer;
  answer.request = m.request;
  if (opener_.facts().authenticator().renew(identity_)) {
    answer.cards = models_of(*opener_.facts().look());
  }
  send(answer, m.request);
}

void zmq_client::on(const query_status& m) {
  const auto now = opener_.facts().look();
  const auto stand = standing_of(*now);
  const auto identity = opener_.facts().authenticator().renew(identity_);
  const bool sees_all = identity && identity->role == key_role::admin; // as for /cluster
  auto answer = sees_all ? now->cluster.value_or(cluster_status{}) : cluster_status{};
  answer.request = m.request;
  answer.phase = stand.phase;
  answer.reason = stand.reason;
  const auto& first = first_of(*now);
  answer.model = first.card ? first.card->name : std::string();
  if (sees_all) {
    answer.load = first.load;
  }
  send(answer, m.request);
}

bool zmq_client::send_chunk(std::uint64_t request, open_entry& entry, chunk c) {
  const auto choice = c.choice;
  const bool ends = c.finish != finish::none;
  const bool fails = c.finish == finish::failed || c.finish == finish::cancelled;
  c.request = request;
  send(c, request);
  if (ends && choice < entry.finished.size()) {
    entry.finished[choice] = true;
  }
  const bool all =
      std::all_of(entry.finished.begin(), entry.finished.end(), [](bool done) { return done; });
  if (all && !fails) {
    entry.open.ended();
  }
  return all;
}

// An entry dropped before its end, with a failed choice, is cancelled.
bool zmq_client::send_piece(std::uint64_t request, open_entry& entry, const chunk& c) {
  if (const auto why = failure_of(c)) {
    send_failure(request, entry, *why);
    return true;
  }
  if (auto piece = entry.pieces->take(c)) {
    piece->request = request;
    send(*std::move(piece), request);
  }
  if (entry.pieces->has_ended()) {
    entry.open.ended();
  }
  return entry.pieces->has_ended();
}

// A granted request ends with one failed chunk for each open choice.
void zmq_client::send_failure(std::uint64_t request, open_entry& entry, const error& reason) {
  if (entry.tickets.empty()) {
    refuse(request, refuse_here(reason, *opener_.facts().look()));
    return;
  }
  for (std::size_t i = 0; i < entry.finished.size(); ++i) {
    if (entry.finished[i]) {
      continue;
    }
    chunk c;
    c.request = request;
    c.ticket = entry.tickets.back();
    c.choice = static_cast<std::uint32_t>(i);
    c.finish = reason.code == errc::cancelled ? finish::cancelled : finish::failed;
    c.failure = reason;
    send(c, request);
  }
}

bool zmq_client::send_event(std::uint64_t request, open_entry& entry, stream_event e) {
  if (auto* g = std::get_if<granted>(&e)) {
    if (entry.pieces) {
      return false; // cancelled by its number, and never resumed
    }
    g->request = request;
    entry.tickets.push_back(g->ticket);
    tickets_.emplace(g->ticket, request);
    send(*g, request);
    return false;
  }
  if (auto* c = std::get_if<chunk>(&e)) {
    return entry.pieces ? send_piece(request, entry, *c)
                        : send_chunk(request, entry, std::move(*c));
  }
  if (auto* i = std::get_if<inferred>(&e)) {
    const bool is_last = i->is_last;
    i->request = request;
    send(std::move(*i), request);
    if (is_last) {
      entry.open.ended();
    }
    return is_last;
  }
  entry.open.ended();
  if (auto* r = std::get_if<rejected>(&e)) {
    r->request = request;
    send(*r, request);
  } else if (auto* t = std::get_if<tokenized>(&e)) {
    t->request = request;
    send(*t, request);
  } else if (auto* d = std::get_if<detokenized>(&e)) {
    d->request = request;
    send(*d, request);
  } else {
    send_failure(request, entry, std::get<failed>(e).reason);
  }
  return true;
}

void zmq_client::pump(std::uint64_t request) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) {
    return;
  }
  auto& entry = it->second;
  while (!is_lost_) {
    if (!has_credit()) {
      held_.insert(request);
      return;
    }
    auto event = entry.open.next();
    if (!event) {
      return;
    }
    use_client_terms(entry.client_names, *event);
    if (send_event(request, entry, *std::move(event))) {
      forget(request);
      return;
    }
  }
}

} // namespace baton::gateway
