#include "gateway/dispatch/pipeline_client_state.hpp"

#include <utility>
#include <vector>

namespace baton::gateway {

// False: it stays here, because it may not move or no other pipeline serves its model. A migrating
// request never stays: the router sends it back to its old pipeline if necessary.
bool pipeline_client_state::hand_over(std::uint64_t request, const rejected& why) {
  auto& entry = open.at(request);
  auto tried = entry.tried;
  tried.set(config.pipeline);
  const bool may_go = may_reroute(entry) && is_served(*facts().look(), entry.model(), tried);
  if (!config.router || (!entry.left_ticket && !may_go)) {
    return false;
  }
  entry.tried = tried;
  if (entry.trace) {
    entry.note("handed_over",
               fmt::format("by pipeline {}: {}", config.pipeline, row_of(why.reason.code).name),
               now());
  }
  self->send(config.router, handover{std::make_shared<open_entry>(std::move(entry)), why});
  open.erase(request);
  return true;
}

// The client may have disconnected while the request was between pipelines.
void pipeline_client_state::take_over(open_entry entry) {
  if (entry.out->is_detached()) {
    release_left_ticket(entry);
    facts().leave();
    return;
  }
  const bool is_back = entry.left_ticket && pipeline_of(entry.left_ticket) == config.pipeline;
  if (is_back) {
    abort_migration(entry, now());
    entry.note("came_back", "no other pipeline has taken it", now());
  }
  const auto number = entry.reserve.request;
  enter(std::move(entry));
  if (is_back && facts().look()->pipelines.at(config.pipeline).is_head_lost) {
    open.at(number).asked_at = head_lost_at; // it has waited with the others since then
  }
}

// Lets the old pipeline forget the ticket of a migrating request.
void pipeline_client_state::release_left_ticket(open_entry& entry) {
  if (entry.left_ticket) {
    self->send(config.router, ticket_left{std::exchange(entry.left_ticket, {})});
  }
}

void pipeline_client_state::on_ticket_left(const ticket_left& m) {
  if (facts().look()->pipelines.at(config.pipeline).is_head_lost) {
    outage.defer_cancel(m.ticket);
  } else {
    cancel_ticket(m.ticket, cancel_reason::client_gone);
  }
}

// Migrates the streams that can continue at another pipeline, if this one has been away for long.
void pipeline_client_state::migrate_streams() {
  if (!config.router || !outage.is_long(now())) {
    return;
  }
  const auto known = facts().look();
  pipeline_set here;
  here.set(config.pipeline);
  std::vector<std::uint64_t> going;
  for (const auto& [number, entry] : open) {
    if (may_migrate(entry, now()) && is_served(*known, entry.model(), here)) {
      going.push_back(number);
    }
  }
  for (const auto number : going) {
    begin_migration(open.at(number), here);
    hand_over(number, {.request = number,
                       .ticket = {},
                       .reason = fail(errc::not_ready, "the pipeline is away"),
                       .retry_after = {},
                       .queue_position = 0});
  }
}

void pipeline_client_state::on_tick() {
  outage.note(facts().look()->pipelines.at(config.pipeline), now());
  migrate_streams();
  end_late();
}

// Ends requests that the head has not answered in time. A later grant is cancelled.
void pipeline_client_state::end_late() {
  const auto limit = facts().config().answer_timeout;
  const auto oldest = now() - limit;
  std::vector<std::uint64_t> late;
  for (const auto& [number, entry] : open) {
    const bool waits = entry.phase != request_phase::running;
    if (waits && entry.asked_at < oldest) {
      late.push_back(number);
    }
  }
  for (const auto number : late) {
    auto& entry = open.at(number);
    if (entry.out) {
      const auto code = entry.is_granted() ? errc::pipeline_lost : errc::queue_timeout;
      deliver(entry, failed{fail(code, "the head did not answer within {} s",
                                 std::chrono::duration_cast<std::chrono::seconds>(limit).count())});
    }
    erase(number); // on_granted cancels tickets of unknown requests
  }
}

void pipeline_client_state::on_head_lost(const actors::peer_down& m) {
  if (m.process != head()) {
    return; // a shard, or the head of another pipeline
  }
  change([&](pipeline_view& p) {
    p.is_head_lost = true;
    p.head_lost_why = m.why;
    p.load.reset();
    ++p.losses;
  });
  head_lost_at = now();
  outage.note(facts().look()->pipelines.at(config.pipeline), now());
  std::vector<std::uint64_t> over;
  std::vector<std::uint64_t> waiting;
  for (auto& [number, entry] : open) {
    entry.asked_at = now();
    entry.note("head_lost", m.why, now());
    if (entry.phase == request_phase::asking || entry.phase == request_phase::leaving) {
      over.push_back(number); // tokenize calls are cheap to repeat; a leaving entry has no client
    } else if (entry.ticket()) {
      entry.phase = request_phase::resuming;
    } else {
      waiting.push_back(number);
    }
  }
  for (const auto number : over) {
    if (auto& entry = open.at(number); entry.out) {
      deliver(entry,
              failed{fail(errc::pipeline_lost, "the head of the cluster was lost: {}", m.why)});
    }
    erase(number);
  }
  for (const auto number : waiting) { // a grant that is on its way will be cancelled
    hand_over(number, {.request = number,
                       .ticket = {},
                       .reason = fail(errc::not_ready, "the head is down: {}", m.why),
                       .retry_after = {},
                       .queue_position = 0});
  }
}

// The model card follows. A new link has lost the messages in flight, even if no loss was seen.
void pipeline_client_state::on_head_up(const actors::peer_up& m) {
  if (m.peer.process != head()) {
    return;
  }
  if (std::exchange(head_incarnation, m.peer.incarnation) != m.peer.incarnation) {
    totals.next_incarnation();
  }
  const auto known = facts().look();
  const auto& p = known->pipelines.at(config.pipeline);
  if (p.card && !p.is_head_lost) {
    on_head_lost({m.peer.process, m.peer.incarnation, "its link is a new one"});
  }
}

// Traces the pipeline's recovery in the streams that wait for it. The death of a shard closes the
// pipeline's epoch; the next epoch continues the streams.
void pipeline_client_state::trace_recovery(const model_card& m) {
  const auto known = facts().look();
  const auto& before = known->pipelines.at(config.pipeline).card;
  if (!facts().tracer() || !before || before->phase == m.phase) {
    return;
  }
  const auto what = m.phase == phase::recovering                                    ? "recovering"
                    : m.phase == phase::ready && before->phase == phase::recovering ? "recovered"
                                                                                    : nullptr;
  for (const auto& [number, entry] : open) {
    if (what && entry.phase != request_phase::asking) {
      entry.note(what, m.reason, now());
    }
  }
}

// The first card, or the first after a loss: messages sent to the head before may be lost.
void pipeline_client_state::on_card(const model_card& m) {
  bool is_news = false;
  trace_recovery(m);
  change([&](pipeline_view& p) {
    is_news = std::exchange(p.is_head_lost, false) || !p.card;
    p.card = m;
  });
  outage.note(facts().look()->pipelines.at(config.pipeline), now());
  if (is_news) {
    on_head_back();
  }
}

// The same head behind a new link, or a new incarnation. Its answers show whether it has the
// tickets.
void pipeline_client_state::on_head_back() {
  for (const auto ticket : outage.take_deferred()) {
    cancel_ticket(ticket, cancel_reason::client_gone);
  }
  for (auto& [number, entry] : open) {
    ask_head(entry);
  }
}

} // namespace baton::gateway
