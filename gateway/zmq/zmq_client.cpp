#include "gateway/zmq/zmq_client.hpp"

#include "gateway/admission/open_requests.hpp"
#include "gateway/api/kserve/models/kserve_model.hpp"
#include "gateway/dispatch/request_tracker.hpp"
#include "gateway/request/request_check.hpp"
#include "gateway/request/response_writer.hpp"
#include "gateway/state/refusal.hpp"
#include "gateway/workers/worker_lookup.hpp"

#include <utility>

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
    : opener_(opener), identity_(std::move(identity)), wake_for_(std::move(wires.wake_for)),
      link_(opener.facts().config(), who, std::move(wires.send)), last_seen_(now) {}

bool zmq_client::is_silent(instant now) const {
  return now - last_seen_ > opener_.facts().config().zmq_bounds.silence_max;
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
  send_failure(link_, it->second, why, opener_.facts());
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
                     wake_for_(number)),
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
                       wake_for_(m.request)),
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
    requests_.emplace(request, zmq_request{.number = request,
                                           .open = *std::move(open),
                                           .finished = std::vector<bool>(choices, false)});
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
  link_.send(no, request);
}

void zmq_client::on(tokenize& m) {
  if (!may_open(m.request)) {
    return;
  }
  const auto number = m.request;
  auto open = opener_.tokenize(identity_, {}, std::move(m), wake_for_(number));
  if (open) {
    requests_.emplace(number, zmq_request{.number = number, .open = *std::move(open)});
    return;
  }
  tokenized no;
  no.request = number;
  no.failure = open.refusal().reason;
  link_.send(no, number);
}

void zmq_client::on(detokenize& m) {
  if (!may_open(m.request)) {
    return;
  }
  auto open = opener_.detokenize(identity_, {}, std::move(m.ids), wake_for_(m.request));
  if (open) {
    requests_.emplace(m.request, zmq_request{.number = m.request, .open = *std::move(open)});
    return;
  }
  detokenized no;
  no.request = m.request;
  no.failure = open.refusal().reason;
  link_.send(no, m.request);
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
  enter(number, opener_.infer(identity_, std::move(m), wake_for_(number)), /*choices=*/0);
}

void zmq_client::open_language_infer(const infer& m, const std::string& model) {
  auto read = read_language_infer(m, model, opener_.facts().config());
  if (!read) {
    return refuse(m.request, read.error());
  }
  read->request.terms.deadline = sooner(read->request.terms.deadline, m.deadline);
  auto open = opener_.open(identity_, std::move(read->request), /*add_generation_prompt=*/true,
                           /*is_stream=*/false, wake_for_(m.request));
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
  send_failure(link_, entry, fail(errc::cancelled, "cancelled by the client"), opener_.facts());
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
  if (!link_.take(m)) {
    opener_.counts().dropped("zmq_bad_credit");
    return;
  }
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
  link_.send(answer, m.request);
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
  link_.send(answer, m.request);
}

void zmq_client::pump(std::uint64_t request) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) {
    return;
  }
  auto& entry = it->second;
  while (!link_.is_lost()) {
    if (!link_.has_credit()) {
      held_.insert(request);
      return;
    }
    auto event = entry.open.next();
    if (!event) {
      return;
    }
    use_client_terms(entry.client_names, *event);
    const auto tickets = entry.tickets.size();
    const bool has_ended = send_event(link_, entry, *std::move(event), opener_.facts());
    if (entry.tickets.size() > tickets) {
      tickets_.emplace(entry.tickets.back(), request);
    }
    if (has_ended) {
      forget(request);
      return;
    }
  }
}

} // namespace baton::gateway
