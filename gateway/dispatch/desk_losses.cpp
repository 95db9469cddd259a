#include "gateway/dispatch/desk_actor.hpp"

#include <utility>
#include <vector>

namespace baton::gateway {

// False: it stays, because it may not go or nobody else is there to serve it. One that has left
// another pipeline never stays: the front sends it back there if need be.
bool desk_state::hand_over(std::uint64_t request, const rejected& why) {
  auto& entry = open.at(request);
  auto tried = entry.tried;
  tried.set(config.pipeline);
  const bool may_go = may_move(entry) && is_served(*facts().look(), entry.model(), tried);
  if (!config.front || (!entry.left && !may_go)) {
    return false;
  }
  entry.tried = tried;
  if (entry.trace) {
    entry.note("handed_over",
               fmt::format("by pipeline {}: {}", config.pipeline, row_of(why.reason.code).name),
               now());
  }
  self->send(config.front, handover{std::make_shared<open_entry>(std::move(entry)), why});
  open.erase(request);
  return true;
}

// Its client may have left while no desk had it.
void desk_state::take_over(open_entry entry) {
  if (entry.out->is_detached()) {
    release_left(entry);
    facts().leave();
    return;
  }
  const bool is_back = entry.left && pipeline_of(entry.left) == config.pipeline;
  if (is_back) {
    come_back(entry, now());
    entry.note("came_back", "no other pipeline has taken it", now());
  }
  const auto number = entry.reserve.request;
  enter(std::move(entry));
  if (is_back && facts().look()->pipelines.at(config.pipeline).is_head_lost) {
    open.at(number).asked_at = head_lost_at; // it has waited with the others all the time
  }
}

// Its ticket at the pipeline that it was at before, which that one may forget now.
void desk_state::release_left(open_entry& entry) {
  if (entry.left) {
    self->send(config.front, ticket_left{std::exchange(entry.left, {})});
  }
}

void desk_state::on_left(const ticket_left& m) {
  if (facts().look()->pipelines.at(config.pipeline).is_head_lost) {
    outage.owe_cancel(m.ticket);
  } else {
    cancel_ticket(m.ticket, cancel_reason::client_gone);
  }
}

// Those that can go on at another pipeline do so, if this one has been away for long.
void desk_state::move_streams() {
  if (!config.front || !outage.is_long(now())) {
    return;
  }
  const auto known = facts().look();
  pipeline_set here;
  here.set(config.pipeline);
  std::vector<std::uint64_t> going;
  for (const auto& [number, entry] : open) {
    if (may_leave(entry, now()) && is_served(*known, entry.model(), here)) {
      going.push_back(number);
    }
  }
  for (const auto number : going) {
    leave(open.at(number), here);
    hand_over(number, {number, {}, fail(errc::not_ready, "the pipeline is away"), {}, 0});
  }
}

void desk_state::on_tick() {
  outage.note(facts().look()->pipelines.at(config.pipeline), now());
  move_streams();
  end_late();
}

// What the head has not answered in time ends here; a grant that comes later is cancelled.
void desk_state::end_late() {
  const auto limit = facts().config().answer_timeout;
  const auto oldest = now() - limit;
  std::vector<std::uint64_t> late;
  for (const auto& [number, entry] : open) {
    const bool waits = entry.stage != stage_of_request::running;
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
    erase(number); // on_granted cancels what it does not know
  }
}

void desk_state::on_head_lost(const actors::peer_down& m) {
  if (m.node != head()) {
    return; // a shard, or another pipeline's head: its own desk knows
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
    if (entry.stage == stage_of_request::asking || entry.stage == stage_of_request::leaving) {
      over.push_back(number); // a question costs nothing to ask again, who left waits for nothing
    } else if (entry.ticket()) {
      entry.stage = stage_of_request::resuming;
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
    hand_over(number, {number, {}, fail(errc::not_ready, "the head is down: {}", m.why), {}, 0});
  }
}

// Its card follows and says more. A link that is new although none was seen to fall has lost what
// was on its way all the same.
void desk_state::on_head_up(const actors::peer_up& m) {
  if (m.peer.node != head()) {
    return;
  }
  if (std::exchange(life_of_head, m.peer.epoch) != m.peer.epoch) {
    totals.next_life();
  }
  const auto known = facts().look();
  const auto& p = known->pipelines.at(config.pipeline);
  if (p.card && !p.is_head_lost) {
    on_head_lost({m.peer.node, m.peer.epoch, "its link is a new one"});
  }
}

// What a pipeline that falls and rises means to the streams that wait for it meanwhile: the death
// of a shard closes its epoch, and the next one goes on with them.
void desk_state::note_standing(const model_card& m) {
  const auto known = facts().look();
  const auto& before = known->pipelines.at(config.pipeline).card;
  if (!facts().tracer() || !before || before->phase == m.phase) {
    return;
  }
  const auto what = m.phase == phase::recovering                                    ? "recovering"
                    : m.phase == phase::ready && before->phase == phase::recovering ? "recovered"
                                                                                    : nullptr;
  for (const auto& [number, entry] : open) {
    if (what && entry.stage != stage_of_request::asking) {
      entry.note(what, m.reason, now());
    }
  }
}

// Of a head that was lost, or that nobody had heard of: what was asked of it meanwhile may not have
// come to it. What an older one served is history.
void desk_state::on_card(const model_card& m) {
  bool is_news = false;
  note_standing(m);
  change([&](pipeline_view& p) {
    is_news = std::exchange(p.is_head_lost, false) || !p.card;
    p.card = m;
  });
  outage.note(facts().look()->pipelines.at(config.pipeline), now());
  if (is_news) {
    on_head_back();
  }
}

// The same one behind a new link, or a new life of it: it says which by what it knows.
void desk_state::on_head_back() {
  for (const auto ticket : outage.take_owed()) {
    cancel_ticket(ticket, cancel_reason::client_gone);
  }
  for (auto& [number, entry] : open) {
    ask_head(entry);
  }
}

} // namespace baton::gateway
