#include "runtime/schedule/sequences/sequence_lists.hpp"

#include "schema/ensure.hpp"

namespace baton::schedule {
namespace {

list_membership membership_of(const sequence& s) {
  list_membership f;
  f.waits = s.state == sequence_state::waiting && !s.is_suspended;
  f.runs = s.state == sequence_state::running;
  f.is_isolated = f.runs && s.must_run_alone();
  f.prefills = f.runs && !f.is_isolated && s.rows_left() > (s.pools_next() ? 0 : 1);
  f.is_ready = f.runs && !f.is_isolated && s.rows_left() == 1 && s.drawing == 0 && !s.is_void &&
               s.drafts.empty() && !s.pools_next();
  f.is_leaving = !f.runs && s.in_flight > 0;
  f.is_gone = s.state == sequence_state::ended && s.in_flight == 0;
  return f;
}

sequence_lists::waiting_order waiting_order_of(const sequence& s) {
  return {s.priority, !s.has_started, s.id};
}

template <class List, class Key>
void move(List& list, bool was_in, bool is_in, const Key& key, sequence& s) {
  if (was_in == is_in)
    return;
  if (is_in)
    list.emplace(key, &s);
  else
    list.erase(key);
}

} // namespace

void ready_list::push(sequence& s) {
  s.ready_since = s.last_batch;
  auto& [first, last] = batches_[s.ready_since];
  s.ready_before = last;
  s.ready_behind = nullptr;
  (last ? last->ready_behind : first) = &s;
  last = &s;
  ++size_;
}

void ready_list::erase(sequence& s) {
  if (s.ready_before && s.ready_behind) {
    s.ready_before->ready_behind = s.ready_behind;
    s.ready_behind->ready_before = s.ready_before;
  } else {
    const auto it = batches_.find(s.ready_since);
    ENSURE(it != batches_.end(), "ticket {} is not among those of batch {}", s.id.ticket.value,
           s.ready_since);
    auto& [first, last] = it->second;
    (s.ready_before ? s.ready_before->ready_behind : first) = s.ready_behind;
    (s.ready_behind ? s.ready_behind->ready_before : last) = s.ready_before;
    if (!first)
      batches_.erase(it);
  }
  s.ready_before = s.ready_behind = nullptr;
  --size_;
}

void ready_list::copy_to(std::vector<sequence*>& to, std::size_t count) const {
  for (const auto& [batch, copied] : batches_)
    for (sequence* s = copied.first; s; s = s->ready_behind) {
      if (count-- == 0)
        return;
      to.push_back(s);
    }
}

void sequence_lists::update(sequence& s) {
  const list_membership was = s.membership;
  const list_membership is = membership_of(s);
  if (was == is)
    return;
  move(waiting_, was.waits, is.waits, waiting_order_of(s), s);
  move(running_, was.runs, is.runs, s.service_order(), s);
  running_potential_ += is.runs ? s.potential_tokens() : 0;
  running_potential_ -= was.runs ? s.potential_tokens() : 0;
  move(prefilling_, was.prefills, is.prefills, s.service_order(), s);
  move(isolated_, was.is_isolated, is.is_isolated, s.service_order(), s);
  if (was.is_ready && !is.is_ready)
    ready_.erase(s);
  else if (is.is_ready && !was.is_ready)
    ready_.push(s);
  leaving_ += is.is_leaving ? 1 : 0;
  leaving_ -= was.is_leaving ? 1 : 0;
  if (is.is_gone)
    finished_.push_back(s.service_order());
  s.membership = is;
}

void sequence_lists::came_back(sequence& s, batch_id batch) {
  if (s.membership.is_ready)
    ready_.erase(s);
  s.last_batch = batch.value;
  if (s.membership.is_ready)
    ready_.push(s);
}

void sequence_lists::check_integrity(const std::map<service_order, sequence>& all) const {
  std::size_t waiting = 0, running = 0, prefilling = 0, isolated = 0, ready = 0, leaving = 0,
              gone = 0;
  for (const auto& [who, s] : all) {
    ENSURE(membership_of(s) == s.membership, "ticket {} is in the lists of another state",
           who.id.ticket.value);
    waiting += s.membership.waits ? 1 : 0;
    running += s.membership.runs ? 1 : 0;
    prefilling += s.membership.prefills ? 1 : 0;
    isolated += s.membership.is_isolated ? 1 : 0;
    ready += s.membership.is_ready ? 1 : 0;
    leaving += s.membership.is_leaving ? 1 : 0;
    gone += s.membership.is_gone ? 1 : 0;
  }
  ENSURE(waiting == waiting_.size() && running == running_.size() &&
             prefilling == prefilling_.size() && isolated == isolated_.size() &&
             ready == ready_.size() && leaving == leaving_ && gone == finished_.size(),
         "{} wait, {} run, {} are ready, {} leave: the lists have {}, {}, {}, {}", waiting, running,
         ready, leaving, waiting_.size(), running_.size(), ready_.size(), leaving_);
  std::uint64_t potential = 0;
  for (const auto& [who, s] : running_)
    potential += s->potential_tokens();
  ENSURE(potential == running_potential_, "{} potential tokens, {} are counted", potential,
         running_potential_);
  std::vector<sequence*> copied;
  ready_.copy_to(copied, ready_.size());
  ENSURE(copied.size() == ready_.size(), "{} are ready, {} in line", ready_.size(), copied.size());
}

} // namespace baton::schedule
