#include "gateway/zmq/zmq_request.hpp"

#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/state/refusal.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

template <class Answer>
void send_as(zmq_link& to, const zmq_request& r, Answer&& m) {
  m.request = r.number;
  to.send(std::forward<Answer>(m), r.number);
}

bool send_chunk(zmq_link& to, zmq_request& r, chunk c) {
  const auto choice = c.choice;
  const bool ends = c.finish != finish::none;
  const bool fails = c.finish == finish::failed || c.finish == finish::cancelled;
  c.request = r.number;
  to.send(c, r.number);
  if (ends && choice < r.finished.size()) {
    r.finished[choice] = true;
  }
  const bool all =
      std::all_of(r.finished.begin(), r.finished.end(), [](bool done) { return done; });
  if (all && !fails) {
    r.open.ended();
  }
  return all;
}

// An entry dropped before its end, with a failed choice, is cancelled.
bool send_piece(zmq_link& to, zmq_request& r, const chunk& c, gateway_state& facts) {
  if (const auto why = failure_of(c)) {
    send_failure(to, r, *why, facts);
    return true;
  }
  if (auto piece = r.pieces->take(c)) {
    piece->request = r.number;
    to.send(*std::move(piece), r.number);
  }
  if (r.pieces->has_ended()) {
    r.open.ended();
  }
  return r.pieces->has_ended();
}

} // namespace

void send_failure(zmq_link& to, zmq_request& r, const error& reason, gateway_state& facts) {
  if (r.tickets.empty()) {
    auto no = refuse_here(reason, *facts.look());
    no.request = r.number;
    to.send(no, r.number);
    return;
  }
  for (std::size_t i = 0; i < r.finished.size(); ++i) {
    if (r.finished[i]) {
      continue;
    }
    chunk c;
    c.request = r.number;
    c.ticket = r.tickets.back();
    c.choice = static_cast<std::uint32_t>(i);
    c.finish = reason.code == errc::cancelled ? finish::cancelled : finish::failed;
    c.failure = reason;
    to.send(c, r.number);
  }
}

bool send_event(zmq_link& to, zmq_request& r, stream_event e, gateway_state& facts) {
  if (auto* g = std::get_if<granted>(&e)) {
    if (!r.pieces) { // otherwise it is cancelled by its number, and never resumed
      g->request = r.number;
      r.tickets.push_back(g->ticket);
      to.send(*g, r.number);
    }
    return false;
  }
  if (auto* c = std::get_if<chunk>(&e)) {
    return r.pieces ? send_piece(to, r, *c, facts) : send_chunk(to, r, std::move(*c));
  }
  if (auto* i = std::get_if<inferred>(&e)) {
    const bool is_last = i->is_last;
    send_as(to, r, std::move(*i));
    if (is_last) {
      r.open.ended();
    }
    return is_last;
  }
  r.open.ended();
  if (auto* no = std::get_if<rejected>(&e)) {
    send_as(to, r, std::move(*no));
  } else if (auto* t = std::get_if<tokenized>(&e)) {
    send_as(to, r, std::move(*t));
  } else if (auto* d = std::get_if<detokenized>(&e)) {
    send_as(to, r, std::move(*d));
  } else {
    send_failure(to, r, std::get<failed>(e).reason, facts);
  }
  return true;
}

} // namespace baton::gateway
